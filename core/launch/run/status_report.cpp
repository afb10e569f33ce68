#include "core/launch/run/status_report.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/launch/preflight/devices.h"

namespace estrain::launch {

using conduct::Member;

Progress StatusReport::progress() const {
  Progress now;
  now.step = run_.trained();
  now.total_steps = run_.manifest->total_steps;
  now.epoch = run_.manifest->epoch_at(Step(now.step > 0 ? now.step - 1 : 0)).value;
  now.accuracy = run_.state.accuracy;
  const Devices devices = devices_of(devices_in_force(run_.job));
  if (devices.empty()) {
    now.devices = "no worker";  // the only one is being replaced
  } else {
    now.devices = counted_devices(devices);
  }
  if (const auto last = last_step_record(*run_.memory)) {
    now.loss = last->loss;
    now.lr = last->lr;
  }
  const double per_step = stages_.step_seconds();
  if (per_step > 0) {
    now.samples_per_second = static_cast<double>(run_.manifest->samples_per_epoch) /
                             static_cast<double>(run_.manifest->batches_per_epoch) / per_step;
    now.seconds_left = seconds_until_done(now, per_step);
  }
  return now;
}

Json StatusReport::status() const {
  static constexpr std::string_view names[] = {"starting", "training", "warming", "pausing", "recovering", "ending"};
  Json json = {{"ok", true},
               {"name", run_.spec.job.name},
               {"model", run_.spec.model.name},
               {"run", run_.directory.path()},
               {"pid", ::getpid()},
               {"state", names[static_cast<int>(run_.job.phase)]},
               {"ests", run_.spec.job.ests},
               {"stage", run_.job.stage},
               {"running_seconds", seconds(monotonic_ns() - run_.state.started_ns)}};
  if (run_.memory) {
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
  if (run_.memory) json.update(elastic());
  if (run_.memory) json["audit"] = audits_.status();
  if (const std::string why = scribe_.no_room(); !why.empty()) json["waits_for_room"] = why;
  json["last_checkpoint_step"] = run_.job.scribe.last_saved_step < 0 ? Json() : Json(run_.job.scribe.last_saved_step);
  json["workers"] = workers();
  if (const Json rows = hosts(); !rows.empty()) json["hosts"] = rows;
  return json;
}

Json StatusReport::workers() const {
  Json all = Json::array();
  for (const Member& worker : run_.job.workers) {
    const auto process = run_.state.workers.find(worker.id);
    all.push_back({{"id", worker.id.value},
                   {"pid", process == run_.state.workers.end() ? -1 : process->second.process.pid()},
                   {"device", worker.device.text()},
                   {"ests", {worker.ests.begin.value, worker.ests.end.value}},
                   {"log", run_.directory.worker_log(worker.id.value)}});
    if (const SpeedWatch::Speed* speed = run_.adviser.speed_of(worker.id)) {
      all.back()["seconds_per_mini_batch"] = speed->seconds;
      if (speed->slow) all.back()["slow"] = {{"factor", speed->factor}, {"since_step", speed->since_step}};
    }
  }
  return all;
}

// A row for each host of a job over several; the launcher's own has no link. `step_seconds`: how long its slowest
// worker computes for a step.
Json StatusReport::hosts() const {
  const std::string& own = run_.state.options.own_host;
  Json rows = Json::array();
  for (const Member& worker : run_.job.workers) {
    const std::string& host = worker.device.host;
    if (rows.empty() || rows.back().at("host") != host) {
      rows.push_back({{"host", host}, {"leads", host == own}, {"workers", 0}, {"ests", 0}, {"secrecy", "encrypted"}});
      rows.back().update(run_.state.links.value(host == own ? "" : host, Json::object()));
    }
    Json& row = rows.back();
    row["workers"] = row.at("workers").get<int64_t>() + 1;
    row["ests"] = row.at("ests").get<int64_t>() + worker.ests.size();
    if (const SpeedWatch::Speed* speed = run_.adviser.speed_of(worker.id))
      row["step_seconds"] =
          std::max(row.value("step_seconds", 0.0), speed->seconds * static_cast<double>(worker.ests.size()));
  }
  return rows.size() > 1 ? rows : Json::array();
}

// The devices held, the plan in force against what is measured, and why things are as they are.
Json StatusReport::elastic() const {
  Json plan = {{"measured_step_seconds", run_.adviser.meter().recent().step_seconds()}};
  if (run_.adviser.past().estimated_step_seconds > 0) {
    plan["estimated_step_seconds"] = run_.adviser.past().estimated_step_seconds;
    plan["reason"] = run_.adviser.past().plan_reason;
  }
  Json decisions = Json::array();
  for (const Decision& decision : run_.adviser.past().decisions())
    decisions.push_back({{"step", decision.step}, {"what", decision.what}, {"reason", decision.reason}});
  return {{"held", texts_of(run_.job.held)}, {"plan", plan}, {"decisions", decisions}};
}

}  // namespace estrain::launch
