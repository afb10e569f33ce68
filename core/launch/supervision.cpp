// Looking after a run, ten times a second: who hangs or is stopped (sentry.h), who is slow, when the allocation ends.

#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/launch/launcher.h"

namespace estrain::launch {

using conduct::Member;
using conduct::Phase;

// To hosts that see nothing of this one but the run directory.
void Launcher::show_life(int64_t now) {
  if (now - shown_life_ns_ < kBetweenTouchesNs) return;
  shown_life_ns_ = now;
  (void)::futimens(lock_.get(), nullptr);
}

void Launcher::supervise() {
  const int64_t now = monotonic_ns();
  show_life(now);
  sentry_.begin_round(memory_.get(), now);
  if (job_.ending == conduct::Ending::none && allocation_ends(now))
    decide(conduct::StopAsked{.why = fmt::format("the allocation ends in {:.0f} s", seconds(*state_.ends_ns - now))});
  if (job_.phase == Phase::over) return;
  if (auto event = sentry_.find_stopped(job_, state_.workers, memory_.get(), now)) decide(std::move(*event));
  if (job_.phase != Phase::over) supervise_scribe(now);
  if (!memory_ || job_.phase == Phase::over) return;
  if (auto event = sentry_.find_hung(job_, state_.workers, *memory_, now)) return decide(std::move(*event));
  supervise_speed();
}

// Whether it is time to stop because Slurm ends the job: the grace before that, but never more than three quarters of
// what there was at the start, so that a short allocation gets something done.
bool Launcher::allocation_ends(int64_t now) {
  if (!state_.ends_ns) return false;
  const int64_t margin = std::min(nanoseconds(job_.grace_seconds), (*state_.ends_ns - state_.started_ns) / 4 * 3);
  if (*state_.ends_ns - now >= margin) return false;
  state_.ends_ns = host::current_end_ns(state_.ends_ns);  // it may have been given more time
  return state_.ends_ns && *state_.ends_ns - now < margin;
}

void Launcher::supervise_scribe(int64_t now) {
  ScribeProcess& scribe = state_.scribe;
  if (!sentry_.has_hung(scribe, memory_.get(), now)) return;
  scribe.process.signal(SIGKILL);
  ChildEnd ended;
  scribe.process.wait_for(kPatienceWithKillMs, &ended);
  lose_scribe(ended, true);
}

// What each worker of the stage has done in it so far.
std::vector<SpeedMeter::Worker> Launcher::work_done() {
  std::vector<SpeedMeter::Worker> done;
  for (size_t rank = 0; rank < job_.workers.size(); ++rank) {
    const Member& worker = job_.workers[rank];
    const comm::WorkerPulse& pulse = memory_->pulse(WorkerRank(static_cast<int64_t>(rank)));
    done.push_back({worker.id.value, worker.device.kind, worker.ests.size(), pulse.computing_ns.load(),
                    pulse.mini_batches.load()});
  }
  return done;
}

void Launcher::supervise_speed() {
  if (job_.phase != Phase::training) return adviser_.interrupt();
  const std::vector<SpeedMeter::Worker> done = work_done();
  const auto last = last_step_record();
  const bool window_complete =
      last && adviser_.observe(last->step.value, last->time_ns, memory_->commit().evaluated().value, done);
  for (const SpeedWatch::Speed& change : adviser_.watch(Step(trained()), monotonic_ns(), done)) {
    directory_.log_event(change.slow ? "slow_worker" : "worker_at_speed", {{"step", trained()},
                                                                           {"worker", change.worker},
                                                                           {"factor", change.factor},
                                                                           {"seconds_per_mini_batch", change.seconds},
                                                                           {"usual_seconds", change.usual_seconds},
                                                                           {"since_step", change.since_step}});
    printer_.note(
        change.slow
            ? fmt::format("step {}: worker {} is slow: {:.1f} times the usual time per mini-batch since step {}",
                          trained(), change.worker, change.factor, change.since_step)
            : fmt::format("step {}: worker {} is as fast as usual again", trained(), change.worker));
  }
  if (window_complete) follow_advice();
}

}  // namespace estrain::launch
