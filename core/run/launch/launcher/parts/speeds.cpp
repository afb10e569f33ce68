#include "core/run/launch/launcher/parts/speeds.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/process/child_process.h"
#include "core/run/launch/control/status.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::launch {

using decisions::Member;
using decisions::Phase;

void Speeds::watch() {
  if (run_.job.phase != Phase::training) return run_.adviser.interrupt();
  const std::vector<SpeedMeter::Worker> done = work_done();
  const auto last = last_step_record(*run_.memory);
  const bool window_complete =
      last && run_.adviser.observe(last->step.value, last->time_ns, run_.memory->commit().evaluated().value, done);
  for (const SpeedWatch::Speed& change : run_.adviser.watch(Step(run_.trained()), monotonic_ns(), done)) tell(change);
  measure_noise();
  if (window_complete) follow_advice();
}

void Speeds::measure_noise() {
  if (run_.spec.elastic.batch != spec::BatchMode::adaptive) return;
  std::vector<NoiseMeter::Worker> sums;
  for (size_t rank = 0; rank < run_.job.workers.size(); ++rank) {
    const comm::WorkerPulse& pulse = run_.memory->pulse(WorkerRank(static_cast<int64_t>(rank)));
    const std::string& host = run_.job.workers[rank].device.host;
    sums.push_back({host.empty() || host == run_.state.options.own_host, pulse.measured_steps.load(),
                    pulse.est_squares.load(), pulse.mean_squares.load()});
  }
  const batches::BatchChange change = run_directory::in_force(run_.spec, Step(run_.trained()));
  run_.adviser.noise_meter().observe(run_.spec.job.ests, change.batch, sums);
}

void Speeds::tell(const SpeedWatch::Speed& change) {
  const int64_t step = run_.trained();
  run_.directory.log_event(change.slow ? "slow_worker" : "worker_at_speed",
                           {{"step", step},
                            {"worker", change.worker},
                            {"factor", change.factor},
                            {"seconds_per_mini_batch", change.seconds},
                            {"usual_seconds", change.usual_seconds},
                            {"seconds_waiting_for_data", change.reading_seconds},
                            {"since_step", change.since_step}});
  const std::string waits = change.reading_share() < kNotableDataWait
                                ? ""
                                : fmt::format(", {:.0f} % of it waiting for data", 100 * change.reading_share());
  run_.printer.note(
      change.slow
          ? fmt::format("step {}: worker {} is slow: {:.1f} times the usual time per mini-batch{} since step {}", step,
                        change.worker, change.factor, waits, change.since_step)
          : fmt::format("step {}: worker {} is as fast as usual again", step, change.worker));
}

// Returns the work of each worker in this stage so far.
std::vector<SpeedMeter::Worker> Speeds::work_done() const {
  std::vector<SpeedMeter::Worker> done;
  for (size_t rank = 0; rank < run_.job.workers.size(); ++rank) {
    const Member& worker = run_.job.workers[rank];
    const comm::WorkerPulse& pulse = run_.memory->pulse(WorkerRank(static_cast<int64_t>(rank)));
    done.push_back({worker.id.value, worker.device.text(), worker.ests.size(), pulse.computing_ns.load(),
                    pulse.mini_batches.load(), pulse.reading_ns.load()});
  }
  return done;
}

void Speeds::load_profiles() {
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty()) return;
  try {
    run_.adviser.speed_planner().profiles = store(path).load().of(run_.spec, run_.adviser.speed_planner().host());
  } catch (const Error& error) {
    run_.printer.note("warning: speeds measured earlier are not used: " + error.message());
  }
}

void Speeds::keep_profiles() {
  const SpeedMeter::Span& stage = run_.adviser.meter().stage();
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty() || stage.steps == 0 || !run_.adviser.workers_are_ordinary(run_.job)) return;
  try {
    store(path).update([&](profile::Profiles& profiles) {
      const profile::Host& host = run_.adviser.speed_planner().host();
      profiles.learn(run_.spec, host, as_stage_speed(stage), unix_seconds());
      const double change = run_.adviser.past().change_seconds(false, 0);
      if (change > 0)
        profiles.learn_change(run_.spec, host, run_.job.workers.front().device.text(), change, unix_seconds());
    });
  } catch (const Error& error) {
    run_.printer.note("warning: the speeds measured are not kept: " + error.message());
  }
}

profile::ProfileStore Speeds::store(const std::string& path) {
  return {path, [this](const std::string& sentence) { run_.printer.note("warning: " + sentence); }};
}

void Speeds::note_decision(std::string what, std::string reason) {
  const int64_t step = run_.trained();
  run_.directory.log_event("decision", {{"step", step}, {"what", what}, {"reason", reason}});
  run_.printer.note(fmt::format("step {}: {}: {}", step, what, reason));
  run_.adviser.past().note({step, std::move(what), std::move(reason)});
}

Course Speeds::course() const {
  return {.now_ns = monotonic_ns(),
          .unix_seconds = unix_seconds(),
          .steps_left = std::max<int64_t>(0, run_.manifest->total_steps - run_.trained()),
          .start_seconds = run_.state.start_seconds};
}

void Speeds::follow_advice() {
  std::optional<Advice> advice = run_.adviser.advise(run_.job, course());
  if (!advice) return;
  note_decision(std::move(advice->what), std::move(advice->reason));
  run_.decide(decisions::ChangeAsked{std::move(advice->change), {}});
}

}  // namespace estrain::launch
