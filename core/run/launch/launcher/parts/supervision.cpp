#include "core/run/launch/launcher/parts/supervision.h"

#include <sys/stat.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/job/resources/allocation.h"

namespace estrain::launch {

void Supervision::begin_stage(bool anew) {
  sentry_.measure_on(devices_of(devices_in_force(run_.job)), *run_.memory, anew);
}

void Supervision::begin_round(int64_t now) {
  show_life(now);
  sentry_.begin_round(run_.memory.get(), now);
}

void Supervision::show_life(int64_t now) {
  if (now - shown_life_ns_ < run_directory::kBetweenTouchesNs) return;
  shown_life_ns_ = now;
  (void)::futimens(processes_.shared.lock, nullptr);
}

std::optional<decisions::Event> Supervision::find_allocation_end(std::optional<int64_t>& ends_ns, int64_t now) const {
  if (run_.job.ending != decisions::Ending::none || !allocation_ends(ends_ns, now)) return std::nullopt;
  return decisions::StopAsked{.why = fmt::format("the allocation ends in {:.0f} s", seconds(*ends_ns - now))};
}

// Tells whether to stop now: the grace before the end, but never more than three quarters of the time at the start, so
// that a short allocation makes progress.
bool Supervision::allocation_ends(std::optional<int64_t>& ends_ns, int64_t now) const {
  if (!ends_ns) return false;
  const int64_t margin = std::min(nanoseconds(run_.job.grace_seconds), (*ends_ns - run_.times.started_ns) / 4 * 3);
  if (*ends_ns - now >= margin) return false;
  ends_ns = resources::current_end_ns(ends_ns);
  return ends_ns && *ends_ns - now < margin;
}

std::optional<decisions::Event> Supervision::find_stopped_worker(int64_t now) {
  return sentry_.find_stopped(run_.job, processes_.workers, run_.memory.get(), now);
}

std::optional<decisions::Event> Supervision::find_hung_worker(int64_t now) const {
  return sentry_.find_hung(run_.job, processes_.workers, *run_.memory, now);
}

bool Supervision::scribe_hangs(int64_t now) { return sentry_.has_hung(processes_.scribe, run_.memory.get(), now); }

}  // namespace estrain::launch
