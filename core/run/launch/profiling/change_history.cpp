#include "core/run/launch/profiling/change_history.h"

namespace estrain::launch {

void ChangeHistory::note(NotedDecision decision) {
  decisions_.push_back(std::move(decision));
  if (decisions_.size() > kDecisionsKept) decisions_.pop_front();
}

void ChangeHistory::end_stage(int64_t step, std::string devices, double step_seconds) {
  if (step == stage_began) return;  // the stage trained no step
  stages_.push_back({stage_began, step, std::move(devices), step_seconds});
  if (stages_.size() > kStagesKept) stages_.pop_front();
  stage_began = step;
}

void ChangeHistory::count_change(double seconds, bool keeps_devices) {
  Cost& cost = keeps_devices ? rebalances_ : resizes_;
  cost.changes += 1;
  cost.seconds += seconds;
}

double ChangeHistory::change_seconds(bool keeps_devices, double unmeasured) const {
  const Cost& cost = keeps_devices ? rebalances_ : resizes_;
  return cost.changes > 0 ? cost.seconds / static_cast<double>(cost.changes) : unmeasured;
}

Json ChangeHistory::to_json() const {
  Json json = {{"decisions", Json::array()},
               {"resizes", {resizes_.changes, resizes_.seconds}},
               {"rebalances", {rebalances_.changes, rebalances_.seconds}},
               {"estimated_step_seconds", estimated_step_seconds},
               {"plan_reason", plan_reason},
               {"stage_began", stage_began},
               {"stages", Json::array()}};
  for (const StageSummary& stage : stages_)
    json["stages"].push_back({stage.from_step, stage.to_step, stage.devices, stage.step_seconds});
  for (const NotedDecision& decision : decisions_)
    json["decisions"].push_back({{"step", decision.step}, {"what", decision.what}, {"reason", decision.reason}});
  if (!trial) return json;
  json["trial"] = {
      {"held", texts_of(trial->held_before)}, {"devices", Json::array()}, {"step_seconds", trial->step_seconds_before}};
  for (const auto& [device, ests] : trial->devices_before)
    json["trial"]["devices"].push_back({device.text(), ests.value_or(0)});
  return json;
}

ChangeHistory ChangeHistory::from_json(const Json& json) {
  ChangeHistory history;
  for (const Json& decision : json.at("decisions"))
    history.note({decision.at("step"), decision.at("what"), decision.at("reason")});
  history.resizes_ = {json.at("resizes").at(0), json.at("resizes").at(1)};
  history.rebalances_ = {json.at("rebalances").at(0), json.at("rebalances").at(1)};
  history.estimated_step_seconds = json.at("estimated_step_seconds");
  history.plan_reason = json.at("plan_reason");
  history.stage_began = json.at("stage_began");
  for (const Json& stage : json.at("stages"))
    history.stages_.push_back({stage.at(0), stage.at(1), stage.at(2), stage.at(3)});
  if (!json.contains("trial")) return history;
  const Json& trial = json.at("trial");
  history.trial = GrowthTrial{placement::devices_from(trial.at("held")), {}, trial.at("step_seconds")};
  for (const Json& device : trial.at("devices"))
    history.trial->devices_before.push_back(
        {placement::devices_from({device.at(0)}).front(), device.at(1).get<int64_t>()});
  return history;
}

}  // namespace estrain::launch
