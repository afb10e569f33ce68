// Looking after the processes of a run, ten times a second: who is stopped, who hangs, who is slow. All from a few
// words in shared memory that workers write as they go on, and from /proc for those that have been silent.

#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/clock.h"
#include "core/base/process_stat.h"
#include "core/launch/launcher.h"

namespace estrain::launch {

using conduct::Member;
using conduct::Phase;

namespace {

constexpr int64_t kSecond = 1'000'000'000;
// The launcher itself, or the whole machine, stood still for so long: nobody is to blame for silence in that time.
constexpr int64_t kOwnPause = kSecond;
constexpr int64_t kSilentNs = kSecond / 2;   // before /proc is asked
constexpr int64_t kStoppedNs = kSecond;      // in the state "stopped"
constexpr int64_t kStartNs = 600 * kSecond;  // without processor time, until a new worker is ready
constexpr int64_t kScribeNs = 60 * kSecond;  // a disk may be that slow

// Whether the process has been seen stopped for long enough.
bool is_stopped(const ProcessStat& stat, int64_t now, int64_t* since) {
  if (stat.state != 'T') {
    *since = 0;
    return false;
  }
  if (*since == 0) *since = now;
  return now - *since >= kStoppedNs;
}

}  // namespace

Pace Launcher::pace() const {
  const comm::MemoryHeader& header = memory_->header();
  return {.step_ns = header.longest_step_ns.load(),
          .evaluation_ns = header.longest_evaluation_ns.load(),
          .limit_ns = nanoseconds(spec_.recovery.hang_seconds)};
}

// How long work takes on some devices says nothing of others.
void Launcher::measure_anew_on_other_devices() {
  std::vector<std::string> devices = kinds_of(devices_in_force(job_));
  if (devices == measured_on_) return;
  measured_on_ = std::move(devices);
  memory_->header().longest_step_ns.store(0);
  memory_->header().longest_evaluation_ns.store(0);
  pace_ = pace();
}

int64_t Launcher::age_ns(int64_t beat_ns, int64_t now) const { return now - std::max(beat_ns, supervised_from_ns_); }

// What was under way when everybody stood still is no measure of how long it takes.
void Launcher::note_own_pause(int64_t now) {
  supervised_from_ns_ = now;
  if (!memory_) return;
  memory_->header().progress_ns.store(now);
  memory_->header().longest_step_ns.store(pace_.step_ns);
  memory_->header().longest_evaluation_ns.store(pace_.evaluation_ns);
}

// To hosts that see nothing of this one but the run directory.
void Launcher::show_life(int64_t now) {
  if (now - shown_life_ns_ < kBetweenTouchesNs) return;
  shown_life_ns_ = now;
  (void)::futimens(lock_.get(), nullptr);
}

void Launcher::supervise() {
  const int64_t now = monotonic_ns();
  show_life(now);
  if (now - last_tick_ns_ > kOwnPause) note_own_pause(now);
  last_tick_ns_ = now;
  if (memory_) pace_ = pace();
  if (job_.ending == conduct::Ending::none && allocation_ends(now))
    decide(conduct::StopAsked{.why = fmt::format("the allocation ends in {:.0f} s", seconds(*state_.ends_ns - now))});
  if (job_.phase != Phase::over) supervise_processes(now);
  if (job_.phase != Phase::over) supervise_scribe(now);
  if (memory_ && job_.phase != Phase::over) supervise_progress(now);
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

// What is decided changes the lists of workers: after one that hangs, the next tick looks on.
void Launcher::supervise_processes(int64_t now) {
  const std::vector<const Member*> members = all_members(job_);
  for (const Member* member : members) {
    WorkerProcess* worker = process_of(member->id);
    if (worker == nullptr || !worker->process.running()) continue;
    const comm::WorkerPulse* pulse = pulse_of(*member);
    const int64_t beat = pulse != nullptr ? pulse->beat_ns.load() : worker->started_ns;
    if (now - beat < kSilentNs) continue;
    const ProcessStat stat = process_stat(worker->process.pid());
    if (is_stopped(stat, now, &worker->not_running_since_ns))
      return decide(conduct::WorkerHangs{member->id, "was stopped by a signal (SIGSTOP) and did not go on"});
    const Member& builder = job_.phase == Phase::starting ? job_.workers.front() : *members.front();
    worker->work.observe(now, beat, stat);
    if (member->id != builder.id && !builder.ready) worker->work.mark(now);
    if (!member->ready && age_ns(std::max(worker->started_ns, worker->work.at_ns()), now) > kStartNs)
      return decide(conduct::WorkerHangs{
          member->id, fmt::format("was not ready, and took no processor time for {} s", kStartNs / kSecond)});
  }
}

Silence Launcher::silence_of(const Member& member, int64_t now) {
  const comm::WorkerPulse& pulse = *pulse_of(member);
  const int64_t beat = pulse.beat_ns.load();
  const WorkerProcess* worker = process_of(member.id);
  const int64_t at_work = worker == nullptr ? 0 : worker->work.at_ns();
  return {.activity = pulse.activity.load(),
          .since_beat_ns = age_ns(beat, now),
          .since_work_ns = age_ns(std::max(beat, at_work), now),
          .left = member.left};
}

void Launcher::supervise_progress(int64_t now) {
  if (job_.phase == Phase::starting) return;
  const bool recovers = job_.phase == Phase::recovering;
  std::vector<Silence> silences;
  for (const Member& member : job_.workers) {
    silences.push_back(silence_of(member, now));
    const std::optional<std::string> how = recovers
                                               ? why_lingering(silences.back(), age_ns(job_.stood_still_ns, now), pace_)
                                               : why_hung(silences.back(), pace_);
    if (how) return decide(conduct::WorkerHangs{member.id, *how});
  }
  if (!recovers && all_wait(silences, pace_)) {
    const int64_t waited = std::ranges::min(silences, {}, &Silence::since_beat_ns).since_beat_ns;
    return decide(conduct::AllWait{seconds(waited)});
  }
  supervise_speed();
}

void Launcher::supervise_scribe(int64_t now) {
  ScribeProcess& scribe = state_.scribe;
  if (!scribe.socket || !scribe.process.running()) return;
  const int64_t beat = std::max(scribe.started_ns, memory_ ? memory_->header().scribe_beat_ns.load() : 0);
  if (age_ns(beat, now) < 2 * kSilentNs) return;
  const bool stopped = is_stopped(process_stat(scribe.process.pid()), now, &scribe.not_running_since_ns);
  const bool hangs = memory_ && age_ns(beat, now) > kScribeNs;
  if (!stopped && !hangs) return;
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
    const comm::WorkerPulse& pulse = memory_->pulse(static_cast<int64_t>(rank));
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
      last && adviser_.observe(last->step, last->time_ns, memory_->header().evaluated.load(), done);
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
