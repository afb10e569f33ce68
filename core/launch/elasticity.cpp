#include "core/launch/elasticity.h"

namespace estrain::launch {

void Elasticity::note(Decision decision) {
  decisions_.push_back(std::move(decision));
  if (decisions_.size() > kDecisionsKept) decisions_.pop_front();
}

void Elasticity::end_stage(int64_t step, std::string devices, double step_seconds) {
  if (step == stage_began) return;  // it did not get to a step
  stages_.push_back({stage_began, step, std::move(devices), step_seconds});
  if (stages_.size() > kStagesKept) stages_.pop_front();
  stage_began = step;
}

void Elasticity::count_change(double seconds, bool keeps_devices) {
  Cost& cost = keeps_devices ? rebalances_ : resizes_;
  cost.changes += 1;
  cost.seconds += seconds;
}

double Elasticity::change_seconds(bool keeps_devices, double unmeasured) const {
  const Cost& cost = keeps_devices ? rebalances_ : resizes_;
  return cost.changes > 0 ? cost.seconds / static_cast<double>(cost.changes) : unmeasured;
}

Json Elasticity::to_json() const {
  Json json = {{"decisions", Json::array()},
               {"resizes", {resizes_.changes, resizes_.seconds}},
               {"rebalances", {rebalances_.changes, rebalances_.seconds}},
               {"estimated_step_seconds", estimated_step_seconds},
               {"plan_reason", plan_reason},
               {"stage_began", stage_began},
               {"stages", Json::array()}};
  for (const StageSummary& stage : stages_)
    json["stages"].push_back({stage.from_step, stage.to_step, stage.devices, stage.step_seconds});
  for (const Decision& decision : decisions_)
    json["decisions"].push_back({{"step", decision.step}, {"what", decision.what}, {"reason", decision.reason}});
  if (!trial) return json;
  json["trial"] = {
      {"held", texts_of(trial->held_before)}, {"devices", Json::array()}, {"step_seconds", trial->step_seconds_before}};
  for (const auto& [device, ests] : trial->devices_before)
    json["trial"]["devices"].push_back({device.text(), ests.value_or(0)});
  return json;
}

Elasticity Elasticity::from_json(const Json& json) {
  Elasticity elasticity;
  for (const Json& decision : json.at("decisions"))
    elasticity.note({decision.at("step"), decision.at("what"), decision.at("reason")});
  elasticity.resizes_ = {json.at("resizes").at(0), json.at("resizes").at(1)};
  elasticity.rebalances_ = {json.at("rebalances").at(0), json.at("rebalances").at(1)};
  elasticity.estimated_step_seconds = json.at("estimated_step_seconds");
  elasticity.plan_reason = json.at("plan_reason");
  elasticity.stage_began = json.at("stage_began");
  for (const Json& stage : json.at("stages"))
    elasticity.stages_.push_back({stage.at(0), stage.at(1), stage.at(2), stage.at(3)});
  if (!json.contains("trial")) return elasticity;
  const Json& trial = json.at("trial");
  elasticity.trial = Trial{place::devices_from(trial.at("held")), {}, trial.at("step_seconds")};
  for (const Json& device : trial.at("devices"))
    elasticity.trial->devices_before.push_back(
        {place::devices_from({device.at(0)}).front(), device.at(1).get<int64_t>()});
  return elasticity;
}

}  // namespace estrain::launch
