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
using decisions::Phase;

constexpr int64_t kSecondNs = 1'000'000'000;
// The launcher or the whole machine stood still for this long: no process is to blame for silence meanwhile.
constexpr int64_t kOwnPause = kSecondNs;
constexpr int64_t kSilentNs = kSecondNs / 2;   // before /proc is asked
constexpr int64_t kStoppedNs = kSecondNs;      // in the state "stopped"
constexpr int64_t kStartNs = 600 * kSecondNs;  // without processor time, until a new worker is ready
constexpr int64_t kScribeNs = 60 * kSecondNs;  // for a slow disk

Patience measured(int64_t longest_ns) {
  if (longest_ns == 0) return {kUnmeasuredNs, kBusyUnmeasuredNs};
  const int64_t still = 3 * longest_ns + 2 * kSecondNs;
  return {still, std::max(kBusyNs, 10 * still)};
}

bool waits(Activity activity) { return activity == Activity::meeting || activity == Activity::waiting_for_scribe; }

bool is_over(const Silence& silence, const Patience& patience) {
  return silence.since_work_ns > patience.still_ns || silence.since_beat_ns > patience.busy_ns;
}

// Tells whether the process has been seen stopped for long enough.
bool is_stopped(const ProcessStat& stat, int64_t now, int64_t* since) {
  if (stat.state != 'T') {
    *since = 0;
    return false;
  }
  if (*since == 0) *since = now;
  return now - *since >= kStoppedNs;
}

}  // namespace

Patience patience_with(Activity activity, const Pace& pace) {
  const bool reads = activity == Activity::reading;
  if (pace.limit_ns > 0) {
    const int64_t limit = reads ? std::max(pace.limit_ns, kReadingNs) : pace.limit_ns;
    return {limit, limit};
  }
  if (activity == Activity::idle) return measured(0);
  const Patience patience = measured(activity == Activity::evaluating ? pace.evaluation_ns : pace.step_ns);
  if (waits(activity)) return {patience.still_ns, patience.still_ns};
  if (!reads) return patience;
  return {std::max(patience.still_ns, kReadingNs), std::max(patience.busy_ns, kBusyUnmeasuredNs)};
}

std::optional<std::string> why_hung(const Silence& silence, const Pace& pace) {
  const Patience patience = patience_with(silence.activity, pace);
  if (silence.left || waits(silence.activity) || !is_over(silence, patience)) return std::nullopt;
  const bool busy = silence.since_work_ns <= patience.still_ns;
  return fmt::format("{} for {:.1f} s{}",
                     silence.activity == Activity::reading      ? "waited for its data"
                     : silence.activity == Activity::evaluating ? "made no progress in an evaluation"
                                                                : "made no progress",
                     seconds(silence.since_beat_ns), busy ? ", though it took processor time" : "");
}

std::optional<std::string> why_lingering(const Silence& silence, int64_t since_abort_ns, const Pace& pace) {
  Patience patience = patience_with(silence.activity, pace);
  patience.still_ns += kLeavingNs;
  patience.busy_ns += kLeavingNs;
  const Silence since_abort{silence.activity, since_abort_ns, std::min(silence.since_work_ns, since_abort_ns)};
  if (silence.left || !is_over(since_abort, patience)) return std::nullopt;
  return fmt::format("did not leave the step that was given up for {:.1f} s", seconds(since_abort_ns));
}

bool all_wait(std::span<const Silence> workers, const Pace& pace) {
  const auto meets = [](const Silence& silence) { return silence.left || silence.activity == Activity::meeting; };
  if (!std::ranges::all_of(workers, meets) || std::ranges::all_of(workers, &Silence::left)) return false;
  const Silence newest{Activity::meeting, std::ranges::min(workers, {}, &Silence::since_beat_ns).since_beat_ns,
                       std::ranges::min(workers, {}, &Silence::since_work_ns).since_work_ns};
  return is_over(newest, patience_with(Activity::meeting, pace));
}

const comm::WorkerPulse* pulse_of(const decisions::State& job, const Member& member, comm::JobMemory* memory) {
  if (memory == nullptr || member.rank < 0 || is_leaving(job, member.id)) return nullptr;
  return &memory->pulse(WorkerRank(member.rank));
}

Pace Sentry::pace_of(const comm::JobMemory& memory) const {
  const comm::WorkClock::Longest longest = memory.clock().longest();
  return {.step_ns = longest.step_ns, .evaluation_ns = longest.evaluation_batch_ns, .limit_ns = limit_ns_};
}

void Sentry::begin_round(comm::JobMemory* memory, int64_t now) {
  if (now - last_round_ns_ > kOwnPause) note_own_pause(memory, now);
  last_round_ns_ = now;
  if (memory != nullptr) pace_ = pace_of(*memory);
}

// Forgets the duration of all work under way while the whole machine stood still.
void Sentry::note_own_pause(comm::JobMemory* memory, int64_t now) {
  from_ns_ = now;
  if (memory == nullptr) return;
  memory->clock().note_progress(now);
  memory->clock().set_longest({pace_.step_ns, pace_.evaluation_ns});
}

void Sentry::measure_on(Devices devices, comm::JobMemory& memory, bool anew) {
  const bool others = devices != measured_on_;
  measured_on_ = std::move(devices);
  if (others && anew) memory.clock().set_longest({});
  pace_ = pace_of(memory);
}

std::optional<Event> Sentry::find_stopped(const decisions::State& job, Workers& workers, comm::JobMemory* memory,
                                          int64_t now) const {
  const std::vector<const Member*> members = all_members(job);
  for (const Member* member : members) {
    const auto at = workers.find(member->id);
    if (at == workers.end() || !at->second.process.running()) continue;
    WorkerProcess& worker = at->second;
    const comm::WorkerPulse* pulse = pulse_of(job, *member, memory);
    const int64_t beat = pulse != nullptr ? pulse->beat_ns.load() : worker.started_ns;
    if (now - beat < kSilentNs) continue;
    const ProcessStat stat = process_stat(worker.process.pid());
    if (is_stopped(stat, now, &worker.not_running_since_ns))
      return decisions::WorkerHangs{member->id, "was stopped by a signal (SIGSTOP) and not continued"};
    const Member& builder = job.phase == Phase::starting ? job.workers.front() : *members.front();
    worker.work.observe(now, beat, stat);
    if (member->id != builder.id && !builder.ready) worker.work.mark(now);
    if (!member->ready && age_ns(std::max(worker.started_ns, worker.work.at_ns()), now) > kStartNs)
      return decisions::WorkerHangs{
          member->id, fmt::format("was not ready, and took no processor time for {} s", kStartNs / kSecondNs)};
  }
  return std::nullopt;
}

std::optional<Event> Sentry::find_hung(const decisions::State& job, const Workers& workers, comm::JobMemory& memory,
                                       int64_t now) const {
  if (job.phase == Phase::starting) return std::nullopt;
  const bool recovers = job.phase == Phase::recovering;
  std::vector<Silence> silences;
  for (const Member& member : job.workers) {
    const comm::WorkerPulse& pulse = *pulse_of(job, member, &memory);
    const int64_t beat = pulse.beat_ns.load();
    const auto worker = workers.find(member.id);
    const int64_t at_work = worker == workers.end() ? 0 : worker->second.work.at_ns();
    silences.push_back({.activity = pulse.activity.load(),
                        .since_beat_ns = age_ns(beat, now),
                        .since_work_ns = age_ns(std::max(beat, at_work), now),
                        .left = member.left});
    const std::optional<std::string> how = recovers
                                               ? why_lingering(silences.back(), age_ns(job.stood_still_ns, now), pace_)
                                               : why_hung(silences.back(), pace_);
    if (how) return decisions::WorkerHangs{member.id, *how};
  }
  if (recovers || !all_wait(silences, pace_)) return std::nullopt;
  return decisions::AllWait{seconds(std::ranges::min(silences, {}, &Silence::since_beat_ns).since_beat_ns)};
}

bool Sentry::has_hung(ScribeProcess& scribe, const comm::JobMemory* memory, int64_t now) const {
  if (!scribe.socket || !scribe.process.running()) return false;
  const int64_t beat = std::max(scribe.started_ns, memory != nullptr ? memory->clock().scribe_beat_ns() : 0);
  if (age_ns(beat, now) < 2 * kSilentNs) return false;
  if (is_stopped(process_stat(scribe.process.pid()), now, &scribe.not_running_since_ns)) return true;
  return memory != nullptr && age_ns(beat, now) > kScribeNs;
}

}  // namespace estrain::launch
