#include "core/run/launch/launcher/status_report.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::launch {

using decisions::Member;

Progress StatusReport::progress() const {
  Progress now;
  now.step = run_.trained();
  now.total_steps = run_.memory.manifest().total_steps;
  now.epoch = run_.memory.manifest().epoch_at(Step(now.step > 0 ? now.step - 1 : 0)).value;
  if (!run_.spec.train.steps) now.epochs = run_.spec.train.epochs;
  now.accuracy = parts_.scribe.accuracy();
  const Devices devices = devices_of(devices_in_force(run_.job));
  if (devices.empty()) {
    now.devices = "no worker";  // the only worker is being replaced
  } else {
    now.devices = counted_devices(devices);
  }
  if (const auto last = last_step_record(*run_.memory)) {
    now.loss = last->loss;
    now.lr = last->lr;
  }
  const double per_step = parts_.speeds.step_seconds();
  if (per_step > 0) {
    now.samples_per_second = run_.memory.manifest().samples_per_step(Step(now.step)) / per_step;
    now.seconds_left = seconds_until_done(now, per_step);
  }
  return now;
}

RunStatus StatusReport::status() const {
  static constexpr std::string_view names[] = {"starting", "training", "warming", "pausing", "recovering", "ending"};
  RunStatus status;
  status.name = run_.spec.job.name;
  status.model = run_.spec.model.name;
  status.run = run_.journal.directory.path();
  status.pid = ::getpid();
  status.state = names[static_cast<int>(run_.job.phase)];
  status.ests = run_.spec.job.ests;
  status.stage = run_.job.stage;
  status.running_seconds = seconds(MonotonicClock::now() - run_.times.started).count();
  if (run_.memory) {
    add_progress(status);
    add_elastic(status);
    status.audit = parts_.audits.status();
  }
  if (const std::string why = why_without_room(); !why.empty()) status.waits_for_room = why;
  const int64_t saved = run_.job.scribe.last_saved_step;
  status.last_checkpoint_step.emplace();
  if (saved >= 0) status.last_checkpoint_step->value = saved;
  status.workers = workers();
  status.hosts = hosts();
  return status;
}

// Returns what cannot be written for want of room on the disk; empty: nothing waits.
std::string StatusReport::why_without_room() const {
  if (std::string why = parts_.scribe.no_room(); !why.empty() || !run_.memory) return why;
  for (const Member& worker : run_.job.workers) {
    if (worker.rank < 0) continue;
    const comm::WorkerPulse& pulse = run_.memory->pulse(WorkerRank(worker.rank));
    if (pulse.activity.load(std::memory_order_relaxed) == comm::Activity::waiting_for_room)
      return fmt::format("an evaluation cannot write its outputs (worker-{}.log says why)", worker.id);
  }
  return "";
}

void StatusReport::add_progress(RunStatus& status) const {
  const Progress now = progress();
  status.step = now.step;
  status.total_steps = now.total_steps;
  status.epoch = now.epoch;
  status.loss = {now.loss};
  status.lr = {now.lr};
  if (run_.spec.elastic.batch == spec::BatchMode::adaptive) {
    const batches::BatchChange change = run_directory::in_force(run_.spec, Step(now.step));
    status.batch = change.batch;
    status.lr_factor = change.lr_factor;
    if (const auto noise = parts_.speeds.adviser().noise.noise())
      status.gradient_noise = {noise->scale(), noise->steps};
  }
  status.samples_per_second = now.samples_per_second;
  status.devices = now.devices;
  status.test_accuracy = now.accuracy;
  status.seconds_left = now.seconds_left;
}

std::vector<WorkerStatus> StatusReport::workers() const {
  std::vector<WorkerStatus> all;
  for (const Member& worker : run_.job.workers) {
    const auto process = processes_.workers.find(worker.id);
    WorkerStatus& one = all.emplace_back();
    one.id = worker.id.value;
    if (process != processes_.workers.end()) one.pid = process->second.process.pid();
    one.device = worker.device.text();
    one.ests = worker.ests;
    one.log = run_.journal.directory.worker_log(worker.id.value);
    if (const SpeedWatch::Speed* speed = parts_.speeds.adviser().watch.find(worker.id.value)) {
      one.seconds_per_mini_batch = speed->seconds;
      one.seconds_waiting_for_data = speed->reading_seconds;
      if (speed->slow) one.slow = {speed->factor, speed->since_step};
    }
  }
  return all;
}

// Returns a row for each host of a job over several hosts; the launcher's own host has no link. `step_seconds`: the
// time for one step of the host's slowest worker.
std::optional<std::vector<HostStatus>> StatusReport::hosts() const {
  const std::string& own = run_.options.own_host;
  std::vector<HostStatus> rows;
  for (const Member& worker : run_.job.workers) {
    const std::string& host = worker.device.host;
    if (rows.empty() || rows.back().host != host) {
      HostStatus& row = rows.emplace_back();
      codec::from_field(parts_.hosts.links().said.value(host == own ? "" : host, Json::object()), row);
      row.host = host;
      row.leads = host == own;
      if (run_.spec.network.secrecy == spec::Secrecy::control) row.secrecy = "gradients in clear";
    }
    HostStatus& row = rows.back();
    ++row.workers;
    row.ests += worker.ests.size();
    if (const SpeedWatch::Speed* speed = parts_.speeds.adviser().watch.find(worker.id.value)) {
      const double computes = speed->seconds * static_cast<double>(worker.ests.size());
      row.step_seconds = std::max(row.step_seconds.value_or(0), computes);
    }
  }
  if (rows.size() < 2) return std::nullopt;
  return rows;
}

// Adds the devices held, the plan in force against the measurements, and the reason for the present devices and plan.
void StatusReport::add_elastic(RunStatus& status) const {
  status.held = texts_of(run_.job.held);
  PlanStatus& plan = status.plan.emplace();
  plan.measured_step_seconds = parts_.speeds.adviser().meter.recent().step_seconds();
  if (parts_.speeds.adviser().past.estimated_step_seconds > 0) {
    plan.estimated_step_seconds = parts_.speeds.adviser().past.estimated_step_seconds;
    plan.reason = parts_.speeds.adviser().past.plan_reason;
  }
  status.decisions.emplace();
  for (const NotedDecision& decision : parts_.speeds.adviser().past.decisions())
    status.decisions->push_back({decision.step, decision.what, decision.reason});
}

}  // namespace estrain::launch
