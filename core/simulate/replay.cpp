#include "core/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/dispatch/dispatcher.h"
#include "core/simulate/replayed_jobs.h"

namespace estrain::simulate {
namespace {

using dispatch::Away;
using dispatch::Ended;
using dispatch::JobId;
using dispatch::PastJob;
using dispatch::Phase;
using dispatch::PoolTrace;
using dispatch::Taken;

constexpr double kTick = 0.1;            // s, as the daemon's
constexpr double kPatience = 24 * 3600;  // s; if nothing happens for so long, the pool is stuck

// The times in which jobs held a number of devices.
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

// Devices that are taken from the pool and lent to it again, at the moments at which they were.
class TakenDevices {
 public:
  explicit TakenDevices(const std::vector<Taken>& taken) : taken_(taken) {}

  bool is_due(double now) const { return next_ < taken_.size() && taken_[next_].from <= now; }
  double within() const { return taken_[next_].within.value_or(dispatch::kNoHurry); }  // of the next that are taken

  // Names of the devices that are taken at the next moment, or of all present ones if the pool has fewer.
  std::vector<std::string> take(const std::vector<dispatch::Slot>& slots) {
    const double at = taken_[next_].from;
    std::vector<std::string> names;
    for (const dispatch::Slot& slot : slots) {
      const bool is_more = next_ < taken_.size() && taken_[next_].from == at;
      if (!is_more || slot.state != dispatch::Slot::State::present) continue;
      to_lend_.emplace_back(taken_[next_++].to, slot.name);
      names.push_back(slot.name);
    }
    if (names.empty()) ++next_;
    return names;
  }

  // Names of those that come back by now.
  std::vector<std::string> lend(const std::vector<dispatch::Slot>& slots, double now) {
    std::vector<std::string> names;
    for (const dispatch::Slot& slot : slots) {
      const auto due =
          std::ranges::find_if(to_lend_, [&](const auto& one) { return one.first <= now && one.second == slot.name; });
      if (slot.state != dispatch::Slot::State::away || due == to_lend_.end()) continue;
      to_lend_.erase(due);
      names.push_back(slot.name);
    }
    return names;
  }

 private:
  const std::vector<Taken>& taken_;
  size_t next_ = 0;
  std::vector<std::pair<double, std::string>> to_lend_;  // when, which
};

bool all_over(const dispatch::State& state) {
  return std::ranges::all_of(state.jobs, [](const auto& entry) { return is_over(entry.second.phase); });
}

int64_t in_use(const dispatch::State& state) {
  return dispatch::checks_at_work(state) +
         std::ranges::count_if(state.slots, [](const auto& slot) { return slot.holder != 0; });
}

bool nobody_serves(const PoolTrace& trace, double now) {
  return std::ranges::any_of(trace.away, [&](const Away& away) { return away.from <= now && now < away.to; });
}

class Replay {
 public:
  Replay(const PoolTrace& trace, const ReplayOptions& options)
      : trace_(trace), options_(options), running_(trace), taken_(trace.taken) {
    settings_.round = options.round;
    dispatch::State state;
    state.policy = options.policy;
    state.seed = options.seed;
    pool_.emplace(std::move(state), settings_);
    pool_->add_devices(trace.devices, now_);
    settle();
  }

  Result run() {
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
  // The next moment at which something happens by itself.
  double next_event() const {
    double next = kNever;
    const auto consider = [&](double at) {
      if (at > now_) next = std::min(next, at);
    };
    if (next_job_ < trace_.jobs.size()) consider(trace_.jobs[next_job_].submitted);
    for (const auto& [id, at] : checked_at_) consider(at);
    for (const Taken& taken : trace_.taken) consider(taken.from), consider(taken.to);
    for (const Away& away : trace_.away) consider(away.from), consider(away.to);
    running_.for_each_moment(now_, consider);
    return next;
  }

  void advance(double to) {
    running_.advance(now_, to);
    if (options_.keep_stretches)
      for (const auto& [id, job] : pool_->state().jobs) stretches_.follow(id, running_.devices_of(id), now_, to);
    now_ = to;
  }

  // Everything that is due now.
  void happen() {
    for (; next_job_ < trace_.jobs.size() && trace_.jobs[next_job_].submitted <= now_; ++next_job_) submit();
    for (const auto& [id, at] : std::map(checked_at_)) {
      if (at > now_) continue;
      checked_at_.erase(id);
      pool_->checked(id, {true, "", past_[id]->mini_batch, past_[id]->request.total_steps}, now_);
    }
    settle();
    while (taken_.is_due(now_)) take();
    lend();
    for (const JobId id : running_.ids()) look_at(id);
    pool_->tick(now_);
    settle();
  }

  void submit() {
    const PastJob& job = trace_.jobs[next_job_];
    dispatch::Request request = job.request;
    request.total_steps = 0;  // until it has been checked
    const JobId id = pool_->submit(request, now_);
    past_[id] = &job;
    checked_at_[id] = now_ + job.check;
    settle();
  }

  void take() {
    const double within = taken_.within();
    const std::vector<std::string> names = taken_.take(pool_->state().slots);
    if (names.empty()) return;
    pool_->withdraw({names, within, false, 0}, now_);
    settle();
  }

  void lend() {
    const std::vector<std::string> names = taken_.lend(pool_->state().slots, now_);
    if (names.empty()) return;
    pool_->lend(names, now_);
    settle();
  }

  void look_at(JobId id) {
    ReplayedJob& running = running_[id];
    if (running.has_ended()) return end(id, {Ended::How::done, "all steps are done"});
    if (now_ >= running.stops_at) return end(id, {Ended::How::stopped, "stopped with a checkpoint"});
    if (now_ < running.trains_at) return;
    if (!running.has_trained) {
      running.has_trained = true;
      pool_->trains(id, now_);
      settle();
    }
    if (now_ >= running.changes_at) return change(id);
    if (now_ < running.next_look()) return;
    running.looked = now_;
    pool_->progressed(id,
                      {static_cast<int64_t>(running.step), running.job->request.total_steps,
                       running_.told_step_seconds(running, now_), running.devices(), running.devices()},
                      now_);
    settle();
  }

  void change(JobId id) {
    const double lost = carry_out_change(id);
    pool_->changed(id, {running_[id].held, lost, static_cast<int64_t>(running_[id].step)}, now_);
    settle();
  }

  // Returns what it costs.
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
    const bool is_lost = ended.how == Ended::How::vanished;
    steps_[id] = std::floor(is_lost ? running_[id].saved_step : running_[id].step);
    ended.step = static_cast<int64_t>(steps_[id]);
    running_.erase(id);
    pool_->ended(id, ended, now_);
    settle();
  }

  // A daemon that comes back finds what is at work, and what has ended or changed meanwhile. A change or stop whose
  // measured time ends at this moment was done earlier: the rest of that time passed until the daemon heard of it.
  void take_up_jobs() {
    is_away_ = false;
    dispatch::State state = pool_->state();
    pool_.emplace(std::move(state), settings_);
    pool_->take_actions();  // checks go on
    std::vector<JobId> up;
    for (const auto& [id, job] : pool_->state().jobs) {
      if (is_up(job.phase)) up.push_back(id);
    }
    for (const JobId id : up) {
      if (!running_.contains(id)) {
        pool_->ended(id, {Ended::How::vanished, "gone"}, now_);
      } else if (running_[id].has_ended()) {
        end(id, {Ended::How::done, "all steps are done"});
      } else if (running_[id].stops_at <= now_ + kTick) {
        end(id, {Ended::How::stopped, "stopped with a checkpoint"});
      } else {
        find(id);
      }
    }
  }

  void find(JobId id) {
    using Doing = dispatch::Dispatcher::Found::Doing;
    ReplayedJob& running = running_[id];
    dispatch::Dispatcher::Found found;
    if (running.changes_at <= now_ + kTick) found.lost = carry_out_change(id);
    running.has_trained |= running.trains_at <= now_;
    found.held = running.held;
    found.step = static_cast<int64_t>(running.step);
    found.doing = running.stops_at < kNever     ? Doing::ends
                  : running.changes_at < kNever ? Doing::changes
                  : running.has_trained         ? Doing::trains
                                                : Doing::starts;
    pool_->found(id, found, now_);
  }

  void settle() {
    running_.in_use(in_use(pool_->state()));
    for (auto actions = pool_->take_actions(); !actions.empty(); actions = pool_->take_actions()) {
      for (const dispatch::Action& action : actions) std::visit([this](const auto& one) { carry_out(one); }, action);
    }
  }

  void carry_out(const dispatch::CheckJob&) {}
  void carry_out(const dispatch::Released&) {}
  void carry_out(const dispatch::ChangeBatch&) {}  // a past does not know of jobs that let their batch be changed
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
  void carry_out(const dispatch::Note& note) {
    if (note.what == "devices") decisions_.push_back({now_, name_of(note.job), note.devices, note.reason});
  }

  // How long the job's next event of this kind takes.
  double seconds_of(JobId id, std::string_view what) { return past_.at(id)->seconds_of(what, times_[{id, what}]++); }

  std::string name_of(JobId id) const { return std::to_string(past_.at(id)->id); }

  Result result() {
    Result result;
    result.policy = options_.policy;
    result.workload = "1";
    result.seed = options_.seed;
    result.charge = pool_->state().charge;
    result.end = now_;
    result.devices = static_cast<int64_t>(trace_.devices.size());
    result.rounds = pool_->decisions();
    for (const auto& [id, job] : pool_->state().jobs) {
      if (job.phase != Phase::done)
        throw Error::make(Fault::infeasible, "job {} is {}: {}", name_of(id), phase_name(job.phase), job.reason);
      result.device_seconds += job.attained;
      result.jobs.push_back({name_of(id), job.submitted, job.started.value_or(*job.finished), *job.finished, job.starts,
                             job.request.deadline});
    }
    result.stretches = stretches_.take();
    result.decisions = std::move(decisions_);
    return result;
  }

  const PoolTrace& trace_;
  ReplayOptions options_;
  dispatch::Settings settings_;
  std::optional<dispatch::Dispatcher> pool_;
  double now_ = 0;
  size_t next_job_ = 0;
  bool is_away_ = false;
  std::map<JobId, const PastJob*> past_;
  std::map<std::pair<JobId, std::string_view>, size_t> times_;  // that a job has started, grown, shrunk or stopped
  std::map<JobId, double> checked_at_;
  ReplayedJobs running_;
  std::map<JobId, double> steps_;  // of jobs that do not run
  TakenDevices taken_;
  std::vector<DecisionMade> decisions_;
  Stretches stretches_;
};

}  // namespace

Result replay(const PoolTrace& trace, const ReplayOptions& options) { return Replay(trace, options).run(); }

}  // namespace estrain::simulate
