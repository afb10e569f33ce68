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
  std::vector<std::string> devices = kinds_of(devices_in_force());
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
  if (phase_ == Phase::over) return;
  if (ending_ == Ending::stopped && stop_deadline_ns_ != 0 && now > stop_deadline_ns_) {
    printer_.note(
        fmt::format("the step under way takes longer than the grace of {} s: given up", state_.grace_seconds));
    return stop_at_once();
  }
  if (ending_ == Ending::none && allocation_ends(now))
    request_stop(fmt::format("the allocation ends in {:.0f} s", seconds(*state_.ends_ns - now)));
  if (phase_ == Phase::over || !supervise_processes(now)) return;
  supervise_scribe(now);
  if (!memory_ || phase_ == Phase::over) return;
  if (supervise_progress(now)) supervise_speed();
}

// Whether it is time to stop because Slurm ends the job: the grace before that, but never more than three quarters of
// what there was at the start, so that a short allocation gets something done.
bool Launcher::allocation_ends(int64_t now) {
  if (!state_.ends_ns) return false;
  const int64_t margin = std::min(nanoseconds(state_.grace_seconds), (*state_.ends_ns - state_.started_ns) / 4 * 3);
  if (*state_.ends_ns - now >= margin) return false;
  state_.ends_ns = host::current_end_ns(state_.ends_ns);  // it may have been given more time
  return state_.ends_ns && *state_.ends_ns - now < margin;
}

// Handlers change the lists of workers: false when one was lost, and the next tick looks on.
bool Launcher::supervise_processes(int64_t now) {
  const std::vector<WorkerProcess*> workers = all_workers();
  for (WorkerProcess* worker : workers) {
    if (!worker->process.running()) continue;
    const bool starting = !worker->ready;
    const comm::WorkerPulse* pulse = pulse_of(*worker);
    const int64_t beat = pulse != nullptr ? pulse->beat_ns.load() : worker->started_ns;
    if (now - beat < kSilentNs) continue;
    const ProcessStat stat = process_stat(worker->process.pid());
    if (is_stopped(stat, now, &worker->not_running_since_ns)) {
      end_hung_worker(*worker, "was stopped by a signal (SIGSTOP) and did not go on");
      return false;
    }
    const bool waits_for_builder = worker != workers.front() && !workers.front()->ready;
    worker->work.observe(now, beat, stat);
    if (waits_for_builder) worker->work.mark(now);
    if (starting && age_ns(std::max(worker->started_ns, worker->work.at_ns()), now) > kStartNs) {
      end_hung_worker(*worker, fmt::format("was not ready, and took no processor time for {} s", kStartNs / kSecond));
      return false;
    }
  }
  return true;
}

Silence Launcher::silence_of(const WorkerProcess& worker, int64_t now) {
  const comm::WorkerPulse& pulse = *pulse_of(worker);
  const int64_t beat = pulse.beat_ns.load();
  return {.activity = pulse.activity.load(),
          .since_beat_ns = age_ns(beat, now),
          .since_work_ns = age_ns(std::max(beat, worker.work.at_ns()), now),
          .left = worker.left};
}

bool Launcher::supervise_progress(int64_t now) {
  const bool recovers = phase_ == Phase::recovering;
  if (!recovers && phase_ != Phase::training && phase_ != Phase::warming && phase_ != Phase::pausing) return true;
  std::vector<Silence> silences;
  for (WorkerProcess& worker : state_.workers) {
    silences.push_back(silence_of(worker, now));
    std::optional<std::string> how = recovers ? why_lingering(silences.back(), age_ns(stood_still_ns_, now), pace_)
                                              : why_hung(silences.back(), pace_);
    if (!how) continue;
    end_hung_worker(worker, std::move(*how));
    return false;
  }
  return recovers || !all_wait(silences, pace_) || begin_again_where_all_wait(silences);
}

// All wait for each other: somebody was stopped while it waited. Whoever does not leave is the one. Should it come
// again before the run is further, it is no accident. False: the lists of workers have changed.
bool Launcher::begin_again_where_all_wait(const std::vector<Silence>& workers) {
  if (ending_ == Ending::stopped) {  // the committed step is what is saved
    stop_at_once();
    return false;
  }
  const int64_t step = trained();
  const double waited = seconds(std::ranges::min(workers, {}, &Silence::since_beat_ns).since_beat_ns);
  directory_.log_event("stalled", {{"step", step}, {"seconds", waited}});
  if (step <= std::exchange(stalled_at_, std::max(stalled_at_, step))) {
    end_hung_worker(
        state_.workers.front(),
        fmt::format("waits for the others as they wait for it, for {:.1f} s and not for the first time", waited));
    return false;
  }
  printer_.note(fmt::format("step {}: all workers wait for each other: begun again", step));
  if (!pending_) {
    pending_.emplace();
    pending_->devices = devices_in_force();
  }
  stand_still();
  return true;
}

void Launcher::end_hung_worker(WorkerProcess& worker, std::string how) {
  worker.process.signal(SIGKILL);
  faults::Evidence evidence;
  evidence.hung = true;
  evidence.hung_how = std::move(how);
  lose(worker, std::move(evidence));
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
  for (size_t rank = 0; rank < state_.workers.size(); ++rank) {
    const WorkerProcess& worker = state_.workers[rank];
    const comm::WorkerPulse& pulse = memory_->pulse(static_cast<int64_t>(rank));
    done.push_back(
        {worker.id, worker.device.kind, worker.ests.size(), pulse.computing_ns.load(), pulse.mini_batches.load()});
  }
  return done;
}

void Launcher::supervise_speed() {
  if (phase_ != Phase::training) return speed_meter_.interrupt();
  const std::vector<SpeedMeter::Worker> done = work_done();
  const auto last = last_step_record();
  const bool window_complete =
      last && speed_meter_.observe(last->step, last->time_ns, memory_->header().evaluated.load(), done);
  for (const SpeedWatch::Speed& change : speed_watch_.observe(trained(), monotonic_ns(), done)) {
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
  if (window_complete) supervise_plan();
}

}  // namespace estrain::launch
