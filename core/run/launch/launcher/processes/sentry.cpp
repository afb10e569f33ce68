#include "core/run/launch/launcher/processes/sentry.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/process/process_stat.h"

namespace estrain::launch {
namespace {

using comm::Activity;
using decisions::Event;
using decisions::Member;
using decisions::RunPhase;

// The launcher or the whole machine stood still for this long: no process is to blame for silence meanwhile.
constexpr Nanoseconds kOwnPause = 1s;
constexpr Nanoseconds kSilent = 500ms;         // before /proc is asked
constexpr Nanoseconds kStopped = 1s;           // in the state "stopped"
constexpr std::chrono::seconds kStart = 600s;  // without processor time, until a new worker is ready
constexpr Nanoseconds kScribe = 60s;           // for a slow disk

Patience measured(Nanoseconds longest) {
  if (longest == 0ns) return {kUnmeasured, kBusyUnmeasured};
  const Nanoseconds still = 3 * longest + 2s;
  return {still, std::max(kBusy, 10 * still)};
}

bool waits(Activity activity) {
  return activity == Activity::meeting || activity == Activity::waiting_for_scribe ||
         activity == Activity::waiting_for_room;
}

bool is_over(const Silence& silence, const Patience& patience) {
  return silence.since_work > patience.still || silence.since_beat > patience.busy;
}

// Tells whether the process has been seen stopped for long enough.
bool stopped(const ProcessStat& stat, MonotonicTime now, MonotonicTime* since) {
  if (stat.state != 'T') {
    *since = kNoTime;
    return false;
  }
  if (*since == kNoTime) *since = now;
  return now - *since >= kStopped;
}

}  // namespace

Patience patience_with(Activity activity, const LongestWork& pace) {
  const bool reads = activity == Activity::reading;
  if (pace.limit > 0ns) {
    const Nanoseconds limit = reads ? std::max(pace.limit, kReading) : pace.limit;
    return {limit, limit};
  }
  if (activity == Activity::idle) return measured(0ns);
  const Patience patience = measured(activity == Activity::evaluating ? pace.evaluation : pace.step);
  if (waits(activity)) return {patience.still, patience.still};
  if (!reads) return patience;
  return {std::max(patience.still, kReading), std::max(patience.busy, kBusyUnmeasured)};
}

std::optional<std::string> why_hung(const Silence& silence, const LongestWork& pace) {
  const Patience patience = patience_with(silence.activity, pace);
  if (silence.left || waits(silence.activity) || !is_over(silence, patience)) return std::nullopt;
  const bool busy = silence.since_work <= patience.still;
  return fmt::format("{} for {:.1f} s{}",
                     silence.activity == Activity::reading      ? "waited for its data"
                     : silence.activity == Activity::evaluating ? "made no progress in an evaluation"
                                                                : "made no progress",
                     seconds(silence.since_beat).count(), busy ? ", though it took processor time" : "");
}

std::optional<std::string> why_lingering(const Silence& silence, Nanoseconds since_abort, const LongestWork& pace) {
  Patience patience = patience_with(silence.activity, pace);
  patience.still += kLeaving;
  patience.busy += kLeaving;
  const Silence in_abort{silence.activity, since_abort, std::min(silence.since_work, since_abort)};
  if (silence.left || !is_over(in_abort, patience)) return std::nullopt;
  return fmt::format("did not leave the step that was given up for {:.1f} s", seconds(since_abort).count());
}

bool all_wait(std::span<const Silence> workers, const LongestWork& pace) {
  const auto meets = [](const Silence& silence) { return silence.left || silence.activity == Activity::meeting; };
  if (!std::ranges::all_of(workers, meets) || std::ranges::all_of(workers, &Silence::left)) return false;
  const Silence newest{Activity::meeting, std::ranges::min(workers, {}, &Silence::since_beat).since_beat,
                       std::ranges::min(workers, {}, &Silence::since_work).since_work};
  return is_over(newest, patience_with(Activity::meeting, pace));
}

const comm::WorkerPulse* pulse_of(const decisions::RunState& job, const Member& member, comm::JobMemory* memory) {
  if (memory == nullptr || member.rank < 0 || is_leaving(job, member.id)) return nullptr;
  return &memory->pulse(WorkerRank(member.rank));
}

LongestWork Sentry::pace_of(const comm::JobMemory& memory) const {
  const comm::WorkClock::Longest longest = memory.clock().longest();
  return {
      .step = Nanoseconds(longest.step_ns), .evaluation = Nanoseconds(longest.evaluation_batch_ns), .limit = limit_};
}

void Sentry::begin_round(comm::JobMemory* memory, MonotonicTime now) {
  if (now - last_round_ > kOwnPause) note_own_pause(memory, now);
  last_round_ = now;
  if (memory != nullptr) pace_ = pace_of(*memory);
}

// Forgets the duration of all work under way while the whole machine stood still.
void Sentry::note_own_pause(comm::JobMemory* memory, MonotonicTime now) {
  from_ = now;
  if (memory == nullptr) return;
  memory->clock().note_progress(count_ns(now));
  memory->clock().set_longest({pace_.step.count(), pace_.evaluation.count()});
}

void Sentry::measure_on(Devices devices, comm::JobMemory& memory, bool anew) {
  const bool others = devices != measured_on_;
  measured_on_ = std::move(devices);
  if (others && anew) memory.clock().set_longest({});
  pace_ = pace_of(memory);
}

std::optional<Event> Sentry::find_stopped(const decisions::RunState& job, Workers& workers, comm::JobMemory* memory,
                                          MonotonicTime now) const {
  const std::vector<const Member*> members = all_members(job);
  for (const Member* member : members) {
    const auto at = workers.find(member->id);
    if (at == workers.end() || !at->second.process.running()) continue;
    WorkerProcess& worker = at->second;
    const comm::WorkerPulse* pulse = pulse_of(job, *member, memory);
    const MonotonicTime beat = pulse != nullptr ? monotonic_time(pulse->beat_ns.load()) : worker.started;
    if (now - beat < kSilent) continue;
    const ProcessStat stat = process_stat(worker.process.pid());
    if (stopped(stat, now, &worker.not_running_since))
      return decisions::WorkerHangs{member->id, "was stopped by a signal (SIGSTOP) and not continued"};
    const Member& builder = job.phase == RunPhase::starting ? job.workers.front() : *members.front();
    worker.work.observe(now, beat, stat);
    if (member->id != builder.id && !builder.ready) worker.work.mark(now);
    if (!member->ready && age(std::max(worker.started, worker.work.at()), now) > kStart)
      return decisions::WorkerHangs{member->id,
                                    fmt::format("was not ready, and took no processor time for {} s", kStart.count())};
  }
  return std::nullopt;
}

std::optional<Event> Sentry::find_hung(const decisions::RunState& job, const Workers& workers, comm::JobMemory& memory,
                                       MonotonicTime now) const {
  if (job.phase == RunPhase::starting) return std::nullopt;
  const bool recovers = job.phase == RunPhase::recovering;
  std::vector<Silence> silences;
  for (const Member& member : job.workers) {
    const comm::WorkerPulse& pulse = *pulse_of(job, member, &memory);
    const MonotonicTime beat = monotonic_time(pulse.beat_ns.load());
    const auto worker = workers.find(member.id);
    const MonotonicTime at_work = worker == workers.end() ? kNoTime : worker->second.work.at();
    silences.push_back({.activity = pulse.activity.load(),
                        .since_beat = age(beat, now),
                        .since_work = age(std::max(beat, at_work), now),
                        .left = member.left});
    const std::optional<std::string> how =
        recovers ? why_lingering(silences.back(), age(job.stood_still, now), pace_) : why_hung(silences.back(), pace_);
    if (how) return decisions::WorkerHangs{member.id, *how};
  }
  if (recovers || !all_wait(silences, pace_)) return std::nullopt;
  return decisions::AllWait{seconds(std::ranges::min(silences, {}, &Silence::since_beat).since_beat).count()};
}

bool Sentry::is_stopped(RelayProcess& relay, MonotonicTime now) const {
  return relay.process.running() && stopped(process_stat(relay.process.pid()), now, &relay.not_running_since);
}

bool Sentry::has_hung(ScribeProcess& scribe, const comm::JobMemory* memory, MonotonicTime now) const {
  if (!scribe.socket || !scribe.process.running()) return false;
  const MonotonicTime beat =
      std::max(scribe.started, memory != nullptr ? monotonic_time(memory->clock().scribe_beat_ns()) : kNoTime);
  if (age(beat, now) < 2 * kSilent) return false;
  if (stopped(process_stat(scribe.process.pid()), now, &scribe.not_running_since)) return true;
  return memory != nullptr && age(beat, now) > kScribe;
}

}  // namespace estrain::launch
