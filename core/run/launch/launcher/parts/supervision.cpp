#include "core/run/launch/launcher/parts/supervision.h"

#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/job/resources/allocation.h"

namespace estrain::launch {

void Supervision::begin_stage(bool anew) {
  sentry_.measure_on(devices_of(devices_in_force(run_.job)), *run_.memory, anew);
}

void Supervision::begin_round(MonotonicTime now) {
  show_life(now);
  sentry_.begin_round(run_.memory.get(), now);
}

void Supervision::show_life(MonotonicTime now) {
  if (now - shown_life_ < run_directory::kBetweenTouches) return;
  shown_life_ = now;
  keep_lock();
  (void)::futimens(processes_.shared.lock, nullptr);
}

void Supervision::keep_lock() {
  const run_directory::RunDirectory& directory = run_.journal.directory;
  bool is_kept = true;
  try {
    is_kept = directory.keep_lock(processes_.shared.lock);
  } catch (const Error&) {  // a full disk, or one out of reach: the next sign of life tries again
  }
  if (is_kept) return;
  if (processes_.scribe.process.running()) processes_.scribe.process.signal(SIGKILL);
  const auto other = directory.owner();
  throw Error::make(Fault::usage, "{}: its file `lock` was deleted, and another launcher{} has taken the run",
                    directory.path(), other ? fmt::format(" ({})", other->name()) : "")
      .advise("this launcher has ended without a checkpoint; delete no file of a run that is at work");
}

std::optional<decisions::Event> Supervision::find_allocation_end(std::optional<MonotonicTime>& ends,
                                                                 MonotonicTime now) const {
  if (run_.job.ending != decisions::RunEnding::none || !allocation_ends(ends, now)) return std::nullopt;
  return decisions::StopAsked{.why = fmt::format("the allocation ends in {:.0f} s", seconds(*ends - now).count())};
}

// Tells whether to stop now: the grace before the end, but never more than three quarters of the time at the start, so
// that a short allocation makes progress.
bool Supervision::allocation_ends(std::optional<MonotonicTime>& ends, MonotonicTime now) const {
  if (!ends) return false;
  const Nanoseconds margin =
      std::min(nanoseconds(Seconds(run_.job.grace_seconds)), (*ends - run_.times.started) / 4 * 3);
  if (*ends - now >= margin) return false;
  ends = resources::current_end(ends);
  return ends && *ends - now < margin;
}

std::optional<decisions::Event> Supervision::find_stopped_worker(MonotonicTime now) {
  return sentry_.find_stopped(run_.job, processes_.workers, run_.memory.get(), now);
}

void Supervision::end_stopped_relay(MonotonicTime now) {
  if (!processes_.relay || !sentry_.is_stopped(*processes_.relay, now)) return;
  run_.journal.note("the process for workers on other hosts was stopped by a signal: it is replaced");
  processes_.relay->process.signal(SIGKILL);
}

std::optional<decisions::Event> Supervision::find_hung_worker(MonotonicTime now) const {
  return sentry_.find_hung(run_.job, processes_.workers, *run_.memory, now);
}

bool Supervision::scribe_hangs(MonotonicTime now) {
  return sentry_.has_hung(processes_.scribe, run_.memory.get(), now);
}

}  // namespace estrain::launch
