#include "core/planning/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/json/json_lines.h"
#include "core/planning/dispatch/dispatcher.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"
#include "core/planning/simulate/replayed.h"

namespace estrain::simulate {
namespace {

using dispatch::Away;
using dispatch::Ended;
using dispatch::JobId;
using dispatch::PastJob;
using dispatch::Phase;
using dispatch::PoolTrace;

constexpr double kTick = 0.1;            // s, as the daemon's
constexpr double kPatience = 24 * 3600;  // s; if nothing happens for this long, the pool is stuck

// The stretches of time in which jobs held a number of devices.
class Stretches {
 public:
  // The job has held this number of devices from `from` to `to`.
  void follow(JobId id, int64_t devices, double from, double to) {
    const auto open = open_.find(id);
    if (open != open_.end() && all_[open->second].devices == devices) {
      all_[open->second].to = to;
      return;
    }
    if (open != open_.end()) open_.erase(open);
    if (devices == 0) return;
    open_[id] = all_.size();
    all_.push_back({static_cast<size_t>(id - 1), from, to, devices});
  }
  std::vector<Stretch> take() { return std::move(all_); }

 private:
  std::vector<Stretch> all_;
  std::map<JobId, size_t> open_;
};

bool all_over(const dispatch::State& state) {
  return std::ranges::all_of(state.jobs, [](const auto& entry) { return is_over(entry.second.phase); });
}

std::map<std::string, int64_t> in_use(const dispatch::State& state) {
  std::map<std::string, int64_t> devices{{"", dispatch::checks_at_work(state)}};
  for (const dispatch::Slot& slot : state.slots) {
    if (slot.holder != 0) ++devices[slot.host()];
  }
  return devices;
}

bool nobody_serves(const PoolTrace& trace, double now) {
  return std::ranges::any_of(trace.away, [&](const Away& away) { return away.from <= now && now < away.to; });
}

class Replay {
 public:
  Replay(const PoolTrace& trace, const ReplayOptions& options)
      : trace_(trace), options_(options), running_(trace), devices_(trace) {
    settings_.round = options.round;
    dispatch::State state;
    state.policy = options.policy;
    state.seed = options.seed;
    pool_.emplace(std::move(state), settings_);
    tell(dispatch::DevicesAdded{trace.devices});
    settle();
  }

  SimulationResult run() {
    happen();
    double last_event = 0;
    while (next_job_ < trace_.jobs.size() || !all_over(pool_->state())) {
      const double next = next_event();
      if (next < kNever) last_event = now_;
      if (now_ > last_event + kPatience)
        throw Error::make(Fault::infeasible, "policy {}: jobs wait, and nothing happens", options_.policy);
      advance(std::min(next, now_ + kTick));
      if (nobody_serves(trace_, now_)) {
        is_away_ = true;
        continue;
      }
      if (is_away_) take_up_jobs();
      happen();
    }
    return result();
  }

 private:
  // Returns the moment of the next event.
  double next_event() const {
    double next = kNever;
    const auto consider = [&](double at) {
      if (at > now_) next = std::min(next, at);
    };
    if (next_job_ < trace_.jobs.size()) consider(trace_.jobs[next_job_].submitted);
    for (const auto& [id, at] : checked_at_) consider(at);
    devices_.for_each_moment(consider);
    for (const Away& away : trace_.away) consider(away.from), consider(away.to);
    running_.for_each_moment(now_, consider);
    consider(pool_->next_round());
    return next;
  }

  void advance(double to) {
    running_.advance(now_, to);
    if (options_.keep_stretches)
      for (const auto& [id, job] : pool_->state().jobs) stretches_.follow(id, running_.devices_of(id), now_, to);
    now_ = to;
  }

  // The pool's orders are carried out by settle().
  void tell(const dispatch::Event& event) {
    std::vector<dispatch::Action> actions = pool_->on(event, now_);
    std::ranges::move(actions, std::back_inserter(orders_));
  }

  // Carries out everything due now.
  void happen() {
    for (; next_job_ < trace_.jobs.size() && trace_.jobs[next_job_].submitted <= now_; ++next_job_) submit();
    for (const auto& [id, at] : std::map(checked_at_)) {
      if (at > now_) continue;
      checked_at_.erase(id);
      const PastJob& past = *past_[id];
      dispatch::Checked checked{id, true, "", past.mini_batch, past.known_steps(), past.work};
      checked.program = past.program;
      tell(checked);
    }
    settle();
    for (const DeviceChange& change : devices_.due(now_)) std::visit([this](const auto& one) { on(one); }, change);
    for (const auto& removal : devices_.removals(pool_->state().slots)) withdraw(removal);
    for (const auto& taken : devices_.taken(pool_->state().slots, now_)) withdraw(taken);
    lend();
    for (const JobId id : running_.ids()) look_at(id);
    if (waits_for_looks()) return;
    if (round_is_over()) {
      for (const JobId id : running_.ids()) tell_progress(id);
    }
    tell(dispatch::TimePassed{});
    settle();
  }

  bool round_is_over() const { return now_ >= pool_->next_round(); }

  // Returns whether a look at a job, at a moment of the trace, must still come before the daemon's decision.
  bool waits_for_looks() {
    constexpr double kLooks = 0.25;  // s, the longest time of these looks
    if (!round_is_over()) return false;
    return std::ranges::any_of(running_.ids(), [&](JobId id) {
      const auto look = running_[id].measured_look();
      return look && *look > now_ && *look <= pool_->next_round() + kLooks;
    });
  }

  void submit() {
    const PastJob& job = trace_.jobs[next_job_];
    dispatch::Request request = job.request;
    request.total_steps = 0;                                 // until it has been checked
    if (pool_->state().slots.empty()) request.type.clear();  // the type of the first devices to come
    tell(dispatch::Submitted{request});
    const JobId id = pool_->state().last_job;
    past_[id] = &job;
    checked_at_[id] = now_ + job.check;
    settle();
  }

  void on(const dispatch::Added& added) {
    tell(dispatch::DevicesAdded{added.devices});
    settle();
  }
  void on(const dispatch::Removed& removed) { devices_.remove(removed); }
  // A job with devices on this host alone resumes from its present step: its scribe has saved the step. If a job has
  // more hosts and its launcher was on this host, a second host takes over.
  void on(const dispatch::HostGone& gone) {
    devices_.lose(gone.host);
    for (const JobId id : running_.ids()) {
      if (!is_led_by_it_alone(id, gone.host)) continue;
      steps_[id] = std::floor(running_[id].step);
      running_.erase(id);
    }
    tell(dispatch::HostVanished{gone.host, "as it was"});
    for (const JobId id : running_.ids()) lose_devices(id, gone.host);
    settle();
  }

  bool is_led_by_it_alone(JobId id, const std::string& host) const {
    const std::vector<std::string> names = dispatch::names_of(pool_->state(), id);
    return pool_->state().jobs.at(id).home == host && std::ranges::all_of(names, [&](const std::string& name) {
             return dispatch::Slot{0, name}.host() == host;
           });
  }

  void lose_devices(JobId id, const std::string& host) {
    ReplayedJob& running = running_[id];
    const auto is_gone = [&](const std::string& name) { return dispatch::Slot{0, name}.host() == host; };
    std::erase_if(running.held, is_gone);
    std::erase_if(running.held_then, is_gone);
    if (!pool_->state().jobs.at(id).is_leaderless || running.moves_at < kNever) return;
    running.held = dispatch::names_of(pool_->state(), id);
    running.stops_at = running.changes_at = kNever;
    running.saved_step = std::floor(running.step);
    running.moves_at = running.trains_at = now_ + seconds_of(id, "move");
  }

  void move(JobId id) {
    ReplayedJob& running = running_[id];
    running.moves_at = kNever;
    tell(dispatch::Moved{id, dispatch::Slot{0, running.held.front()}.host(), running.held});
    settle();
  }

  void withdraw(const dispatch::Withdrawal& withdrawal) {
    tell(withdrawal);
    settle();
  }

  void lend() {
    const std::vector<std::string> names = devices_.lent(pool_->state().slots, now_);
    if (names.empty()) return;
    tell(dispatch::DevicesLent{names});
    settle();
  }

  void look_at(JobId id) {
    ReplayedJob& running = running_[id];
    if (running.moves_at < kNever) return now_ >= running.moves_at ? move(id) : void();
    if (running.has_ended()) return end(id, {Ended::How::done, "all steps are done"});
    if (now_ >= running.stops_at) return end(id, {Ended::How::stopped, "stopped with a checkpoint"});
    if (now_ < running.trains_at) return;
    if (!running.has_trained) {
      running.has_trained = true;
      tell(dispatch::TrainingBegan{id});
      settle();
    }
    if (now_ >= running.changes_at) return change(id);
    if (now_ >= running.next_look()) tell_progress(id);
  }

  // Tells the pool the job's progress, if the job trains. Tells it once at each moment.
  void tell_progress(JobId id) {
    ReplayedJob& running = running_[id];
    tell_evaluations(id);
    const bool trains = running.has_trained && now_ >= running.trains_at && running.moves_at == kNever;
    if (!trains || running.looked == now_) return;
    running.looked = now_;
    note_foreseen_end(id);
    tell(dispatch::Progressed{id, static_cast<int64_t>(running.step), running.job->known_steps(),
                              running_.told_step_seconds(running, now_), running.devices(), running.devices()});
    settle();
  }

  // Once, half way: the pool has heard the evaluations until now.
  void note_foreseen_end(JobId id) {
    const ReplayedJob& running = running_[id];
    const auto end = static_cast<double>(running.job->request.total_steps);
    if (!running.job->request.early_stop || running.step < end / 2 || !half_way_.insert(id).second) return;
    const dispatch::Job& job = pool_->state().jobs.at(id);
    const double foreseen = static_cast<double>(job.step) + dispatch::foreseen_end(pool_->state(), job).steps;
    end_errors_.push_back(std::abs(foreseen / end - 1));
  }

  void tell_evaluations(JobId id) {
    const ReplayedJob& running = running_[id];
    for (const dispatch::Evaluation& one : running.job->evaluations) {
      if (static_cast<double>(one.step) <= running.step && one.step > pool_->state().jobs.at(id).evaluations.last.step)
        tell(dispatch::JobEvaluated{id, one});
    }
  }

  void change(JobId id) {
    const double lost = carry_out_change(id);
    tell(dispatch::DevicesChanged{id, running_[id].held, lost, static_cast<int64_t>(running_[id].step)});
    settle();
  }

  // Returns the cost of the change.
  double carry_out_change(JobId id) {
    ReplayedJob& running = running_[id];
    running.held = running.held_then;
    running.changes_at = kNever;
    running.looked = -kNever;  // the pool looks at once
    running.saved_step = std::floor(running.step);
    const double measured = seconds_of(id, "lost");
    const double lost = options_.lost.value_or(measured);
    running.trains_at = now_ + lost;
    return lost;
  }

  void end(JobId id, Ended ended) {
    ReplayedJob& running = running_[id];
    const bool is_lost = ended.how == Ended::How::vanished;
    if (ended.how == Ended::How::done) running.step = static_cast<double>(running.job->request.total_steps);
    tell_evaluations(id);
    steps_[id] = std::floor(is_lost ? running.saved_step : running.step);
    ended.step = static_cast<int64_t>(steps_[id]);
    running_.erase(id);
    tell(dispatch::JobEnded{id, ended});
    settle();
  }

  // Takes up jobs when the daemon is back, also those ended or changed meanwhile. A change or stop whose measured time
  // ends at this moment was done earlier: the rest of that time passed before the daemon heard of it.
  void take_up_jobs() {
    is_away_ = false;
    tell(dispatch::TakenUp{});
    orders_.clear();  // checks continue
    std::vector<JobId> up;
    for (const auto& [id, job] : pool_->state().jobs) {
      if (is_up(job.phase)) up.push_back(id);
    }
    for (const JobId id : up) {
      if (!running_.contains(id)) {
        tell(dispatch::JobEnded{id, {Ended::How::vanished, "gone"}});
      } else if (running_[id].has_ended()) {
        end(id, {Ended::How::done, "all steps are done"});
      } else if (running_[id].stops_at <= now_ + kTick) {
        end(id, {Ended::How::stopped, "stopped with a checkpoint"});
      } else {
        find(id);
      }
    }
    tell(dispatch::TimePassed{});  // the pool decides before it looks
    settle();
  }

  void find(JobId id) {
    using Doing = dispatch::FoundAtWork::Doing;
    ReplayedJob& running = running_[id];
    if (running.moves_at < kNever) return;  // the host that takes over tells
    dispatch::FoundAtWork found{id};
    if (running.changes_at <= now_ + kTick) found.lost = carry_out_change(id);
    running.has_trained |= running.trains_at <= now_;
    found.held = running.held;
    found.step = static_cast<int64_t>(running.step);
    found.doing = running.stops_at < kNever     ? Doing::ends
                  : running.changes_at < kNever ? Doing::changes
                  : running.has_trained         ? Doing::trains
                                                : Doing::starts;
    tell(found);
  }

  void settle() {
    running_.in_use(in_use(pool_->state()));
    most_devices_ = std::max(most_devices_, std::ssize(pool_->state().slots));
    while (!orders_.empty()) {
      for (const dispatch::Action& action : std::exchange(orders_, {}))
        std::visit([this](const auto& one) { carry_out(one); }, action);
    }
  }

  void carry_out(const dispatch::CheckJob&) {}
  void carry_out(const dispatch::Released&) {}
  void carry_out(const dispatch::KeepEnd&) {}
  void carry_out(const dispatch::ChangeBatch&) {}  // a past does not know of changes of a batch
  void carry_out(const dispatch::StartJob& action) {
    ReplayedJob& running = running_[action.job];
    running.job = past_[action.job];
    running.held = action.devices;
    running.trains_at = now_ + seconds_of(action.job, "start");
    running.step = running.saved_step = steps_[action.job];
  }
  void carry_out(const dispatch::GrowJob& action) {
    ReplayedJob& running = running_[action.job];
    running.held_then = action.all;
    running.changes_at = now_ + seconds_of(action.job, "grow");
  }
  void carry_out(const dispatch::ShrinkJob& action) {
    ReplayedJob& running = running_[action.job];
    running.held_then = running.held;
    for (const std::string& name : action.given_back) {
      const auto at = std::ranges::find(running.held_then, name);
      if (at != running.held_then.end()) running.held_then.erase(at);
    }
    running.changes_at = now_ + std::min(action.within, seconds_of(action.job, "shrink"));
  }
  void carry_out(const dispatch::StopJob& action) {
    ReplayedJob& running = running_[action.job];
    running.changes_at = kNever;
    running.stops_at = now_ + std::min(action.within, seconds_of(action.job, "stop"));
  }
  void carry_out(const dispatch::KillJob& action) {
    if (running_.contains(action.job)) end(action.job, {Ended::How::vanished, "killed"});
  }
  void carry_out(const dispatch::WriteHistory& note) {
    if (note.what == "devices") decisions_.push_back({now_, name_of(note.job), note.devices, note.reason, note.names});
  }

  // Returns how long the job's next event of this kind takes.
  double seconds_of(JobId id, std::string_view what) { return past_.at(id)->seconds_of(what, times_[{id, what}]++); }

  std::string name_of(JobId id) const { return std::to_string(past_.at(id)->id); }

  SimulationResult result() {
    SimulationResult result;
    result.policy = options_.policy;
    result.workload = "1";
    result.seed = options_.seed;
    result.charge = pool_->state().charge;
    result.end = now_;
    result.devices = most_devices_;
    result.rounds = pool_->state().underway.decisions;
    for (const auto& [id, job] : pool_->state().jobs) {
      if (job.phase != Phase::done)
        throw Error::make(Fault::infeasible, "job {} is {}: {}", name_of(id), phase_name(job.phase), job.reason);
      result.device_seconds += job.attained;
      result.jobs.push_back({name_of(id), job.submitted, job.started.value_or(*job.finished), *job.finished, job.starts,
                             job.request.deadline});
    }
    result.stretches = stretches_.take();
    result.end_errors = std::move(end_errors_);
    result.decisions = std::move(decisions_);
    return result;
  }

  const PoolTrace& trace_;
  ReplayOptions options_;
  dispatch::Settings settings_;
  std::optional<dispatch::Dispatcher> pool_;
  std::vector<dispatch::Action> orders_;
  double now_ = 0;
  size_t next_job_ = 0;
  bool is_away_ = false;
  std::map<JobId, const PastJob*> past_;
  std::map<std::pair<JobId, std::string_view>, size_t> times_;  // number of starts, growths, shrinks or stops of a job
  std::map<JobId, double> checked_at_;
  ReplayedJobs running_;
  std::map<JobId, double> steps_;  // of jobs that do not run
  ReplayedDevices devices_;
  int64_t most_devices_ = 0;
  std::vector<DecisionMade> decisions_;
  Stretches stretches_;
  std::set<JobId> half_way_;  // jobs whose foreseen end is noted
  std::vector<double> end_errors_;
};

}  // namespace

bool is_pool_trace(const std::string& path) {
  std::ifstream file(path);
  return file.peek() == '{';
}

PoolTrace read_pool_trace(const std::string& path) {
  return with_context(path, [&] {
    PoolTrace trace;
    for_each_object(path, [&](const Json& line) { trace.add(line); });
    if (trace.devices.empty() && trace.added.empty()) throw Error(Fault::spec, "no devices");
    if (trace.jobs.empty()) throw Error(Fault::spec, "no jobs");
    std::ranges::stable_sort(trace.jobs, {}, &PastJob::submitted);
    std::ranges::stable_sort(trace.taken, {}, &dispatch::Taken::from);
    return trace;
  });
}

SimulationResult replay(const PoolTrace& trace, const ReplayOptions& options) { return Replay(trace, options).run(); }

}  // namespace estrain::simulate
