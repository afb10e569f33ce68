// What the launcher says of its job while it runs: the progress line and the answer to `estrain status`.

#include <unistd.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/launch/launcher.h"

namespace estrain::launch {

using conduct::Member;

double Launcher::step_seconds() const {
  const int64_t steps = trained() - rate_from_step_;
  return steps > 0 ? seconds(monotonic_ns() - rate_from_ns_) / static_cast<double>(steps) : 0;
}

// Of the newest step; none before the first, or where it is not in the ring any more.
std::optional<comm::RecordHead> Launcher::last_step_record() {
  const uint32_t published = memory_->ring().published();
  for (uint32_t back = 1; back <= std::min(published, 2u); ++back) {
    const comm::RecordHead head = *memory_->ring().at(published - back).head;
    if (head.kind == comm::RecordKind::step) return head;
  }
  return std::nullopt;
}

Progress Launcher::progress() {
  Progress now;
  now.step = trained();
  now.total_steps = manifest_->total_steps;
  now.epoch = manifest_->epoch_at(Step(now.step > 0 ? now.step - 1 : 0)).value;
  now.accuracy = state_.accuracy;
  const std::vector<Device> devices = devices_in_force(job_);
  if (devices.empty()) {
    now.devices = "no worker";  // the only one is being replaced
  } else {
    now.devices = counted_devices(devices);
  }
  if (const auto last = last_step_record()) {
    now.loss = last->loss;
    now.lr = last->lr;
  }
  const double per_step = step_seconds();
  if (per_step > 0) {
    now.samples_per_second = static_cast<double>(manifest_->samples_per_epoch) /
                             static_cast<double>(manifest_->batches_per_epoch) / per_step;
    now.seconds_left = seconds_until_done(now, per_step);
  }
  return now;
}

Json Launcher::status() {
  static constexpr std::string_view names[] = {"starting", "training", "warming", "pausing", "recovering", "ending"};
  Json json = {{"ok", true},
               {"name", spec_.job.name},
               {"model", spec_.model.name},
               {"run", directory_.path()},
               {"pid", ::getpid()},
               {"state", names[static_cast<int>(job_.phase)]},
               {"ests", spec_.job.ests},
               {"stage", job_.stage},
               {"running_seconds", seconds(monotonic_ns() - state_.started_ns)}};
  if (memory_) {
    const Progress now = progress();
    json.update({{"step", now.step},
                 {"total_steps", now.total_steps},
                 {"epoch", now.epoch},
                 {"loss", now.loss},
                 {"lr", now.lr},
                 {"samples_per_second", now.samples_per_second},
                 {"devices", now.devices}});
    if (now.accuracy) json["test_accuracy"] = *now.accuracy;
    if (now.seconds_left) json["seconds_left"] = *now.seconds_left;
  }
  if (memory_) json.update(elastic_status());
  if (waits_for_room()) json["waits_for_room"] = write_error_;
  json["last_checkpoint_step"] = job_.scribe.last_saved_step < 0 ? Json() : Json(job_.scribe.last_saved_step);
  json["workers"] = Json::array();
  for (const Member& worker : job_.workers) {
    const auto process = state_.workers.find(worker.id);
    json["workers"].push_back({{"id", worker.id.value},
                               {"pid", process == state_.workers.end() ? -1 : process->second.process.pid()},
                               {"device", worker.device.kind},
                               {"ests", {worker.ests.begin.value, worker.ests.end.value}},
                               {"log", directory_.worker_log(worker.id.value)}});
    if (const SpeedWatch::Speed* speed = adviser_.speed_of(worker.id)) {
      json["workers"].back()["seconds_per_mini_batch"] = speed->seconds;
      if (speed->slow) json["workers"].back()["slow"] = {{"factor", speed->factor}, {"since_step", speed->since_step}};
    }
  }
  return json;
}

// The devices held, the plan in force against what is measured, and why things are as they are.
Json Launcher::elastic_status() {
  Json plan = {{"measured_step_seconds", adviser_.meter().recent().step_seconds()}};
  if (adviser_.past().estimated_step_seconds > 0) {
    plan["estimated_step_seconds"] = adviser_.past().estimated_step_seconds;
    plan["reason"] = adviser_.past().plan_reason;
  }
  Json decisions = Json::array();
  for (const Decision& decision : adviser_.past().decisions())
    decisions.push_back({{"step", decision.step}, {"what", decision.what}, {"reason", decision.reason}});
  return {{"held", job_.held}, {"plan", plan}, {"decisions", decisions}};
}

// Whether the scribe has written nothing since it could not, though there is something to write.
bool Launcher::waits_for_room() const {
  if (write_error_.empty() || !memory_) return false;
  const uint32_t drained = memory_->ring().drained();
  return drained == written_before_error_ && drained != memory_->ring().published();
}

// What the stage that ends here achieved.
void Launcher::log_stage_speed(int64_t stage) {
  const SpeedMeter::Span& span = adviser_.meter().stage();
  adviser_.end_stage(Step(trained()), monotonic_ns());
  if (span.steps == 0) return;
  Json workers = Json::array();
  for (size_t rank = 0; rank < span.workers.size(); ++rank) {
    const SpeedMeter::Worker& worker = span.workers[rank];
    workers.push_back({{"worker", worker.id},
                       {"device", worker.kind},
                       {"ests", worker.ests},
                       {"mini_batches", worker.mini_batches},
                       {"computing_seconds", static_cast<double>(worker.computing_ns) * 1e-9}});
  }
  directory_.log_event("stage_speed", {{"stage", stage},
                                       {"from_step", span.from_step},
                                       {"to_step", span.to_step},
                                       {"steps", span.steps},
                                       {"seconds", span.seconds},
                                       {"exchange_seconds", span.exchange_seconds()},
                                       {"workers", workers}});
}

}  // namespace estrain::launch
