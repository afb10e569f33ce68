#include "core/run/launch/launcher/parts/supervision.h"

#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/job/resources/allocation.h"

namespace estrain::launch {

using decisions::Phase;

void Supervision::look_after() {
  const int64_t now = monotonic_ns();
  show_life(now);
  sentry_.begin_round(run_.memory.get(), now);
  if (run_.job.ending == decisions::Ending::none && allocation_ends(now))
    run_.decide(decisions::StopAsked{
        .why = fmt::format("the allocation ends in {:.0f} s", seconds(*run_.state.ends_ns - now))});
  if (run_.job.phase == Phase::over) return;
  if (auto event = sentry_.find_stopped(run_.job, run_.state.workers, run_.memory.get(), now))
    run_.decide(std::move(*event));
  if (run_.job.phase != Phase::over) end_hung_scribe(now);
  if (!run_.memory || run_.job.phase == Phase::over) return;
  if (auto event = sentry_.find_hung(run_.job, run_.state.workers, *run_.memory, now))
    return run_.decide(std::move(*event));
  speeds_.watch();
}

void Supervision::look_after_scribe() {
  const int64_t now = monotonic_ns();
  end_hung_scribe(now);
  show_life(now);
}

// Shows a sign of life to hosts that see only the run directory of this host.
void Supervision::show_life(int64_t now) {
  if (now - shown_life_ns_ < run_directory::kBetweenTouchesNs) return;
  shown_life_ns_ = now;
  (void)::futimens(run_.descriptors.lock.get(), nullptr);
}

// Tells whether to stop now because Slurm ends the job: the grace before the end, but never more than three quarters of
// the time at the start, so that a short allocation makes progress.
bool Supervision::allocation_ends(int64_t now) {
  if (!run_.state.ends_ns) return false;
  const int64_t margin =
      std::min(nanoseconds(run_.job.grace_seconds), (*run_.state.ends_ns - run_.state.started_ns) / 4 * 3);
  if (*run_.state.ends_ns - now >= margin) return false;
  run_.state.ends_ns = resources::current_end_ns(run_.state.ends_ns);  // Slurm may have given more time
  return run_.state.ends_ns && *run_.state.ends_ns - now < margin;
}

void Supervision::end_hung_scribe(int64_t now) {
  ScribeProcess& scribe = run_.state.scribe;
  if (!sentry_.has_hung(scribe, run_.memory.get(), now)) return;
  scribe.process.signal(SIGKILL);
  ChildEnd ended;
  scribe.process.wait_for(kPatienceWithKillMs, &ended);
  losses_.lose_scribe(ended, true);
}

}  // namespace estrain::launch
