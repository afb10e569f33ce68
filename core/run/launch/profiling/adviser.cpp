#include "core/run/launch/profiling/adviser.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/clock.h"

namespace estrain::launch {
namespace {

constexpr size_t kLatestWindows = 2;         // the basis of a plan for workers with a changed speed
constexpr int64_t kTrialWindows = 40;        // windows at the estimated speed that prove a growth
constexpr int64_t kLately = 60'000'000'000;  // ns
constexpr double kTrialSlowSeconds = 3;

// Worker -1 is a worker to be started.
std::string shares_key(const Placement& placement) {
  std::string key;
  for (size_t i = 0; i < placement.devices.size(); ++i)
    key += fmt::format("{}={} ", placement.workers[i], placement.devices[i].ests.value_or(0));
  return key;
}

std::string shares_key(const decisions::State& job) {
  std::string key;
  for (const decisions::Member& worker : job.workers) key += fmt::format("{}={} ", worker.id, worker.ests.size());
  return key;
}

decisions::PendingChange change_to(const Placement& placement, Devices held, std::string why) {
  decisions::PendingChange change;
  change.devices = placement.devices;
  for (const int64_t id : placement.workers) change.workers.emplace_back(id);
  change.held = std::move(held);
  change.why = std::move(why);
  change.estimated_step_seconds = placement.plan.step_seconds;
  change.plan_reason = placement.plan.reason;
  return change;
}

}  // namespace

void Adviser::settle(profile::Host host, bool allow_mixed) {
  speed_planner_ = std::make_unique<SpeedPlanner>(*spec_, std::move(host), allow_mixed);
}

void Adviser::begin_stage(const decisions::State& job, Step step) {
  meter_.begin(step.value);
  shares_in_force_ = shares_key(job);
  devices_in_force_.clear();
  for (const decisions::Member& worker : job.workers)
    devices_in_force_ +=
        fmt::format("{}{}={}", devices_in_force_.empty() ? "" : ",", worker.device.text(), worker.ests.size());
}

void Adviser::end_stage(Step step, int64_t now_ns) {
  past_.end_stage(step.value, devices_in_force_, meter_.stage().step_seconds());
  const SpeedMeter::Span recent = meter_.recent();
  if (recent.steps > 0) tried_[shares_in_force_] = {recent.step_seconds(), now_ns};
}

void Adviser::forget_trends() {
  move_watch_.reset();
  return_watch_.reset();
  resize_watch_.reset();
  fall_back_.reset();
}

bool Adviser::workers_are_ordinary(const decisions::State& job) const {
  return std::ranges::none_of(job.workers, [&](const decisions::Member& worker) {
    const SpeedWatch::Speed* speed = speed_of(worker.id);
    return speed != nullptr && speed->slow;
  });
}

// Speeds as of late.
SpeedMeter::Span Adviser::require_speeds() const {
  SpeedMeter::Span span = meter_.recent();
  if (span.steps == 0)
    throw Error(Fault::usage, "nothing is known yet of how fast the job is on its devices")
        .advise("try again when it has trained for a second");
  return span;
}

// Returns the seconds that a change of devices takes from the training: as measured; else the time to start the first
// workers, which is an upper limit.
double Adviser::resize_seconds(const Course& course) const { return past_.change_seconds(false, course.start_seconds); }

std::optional<Advice> Adviser::advise(const decisions::State& job, const Course& course) {
  const SpeedMeter::Span latest = meter_.recent(kLatestWindows);
  if (workers_are_ordinary(job) && meter_.windows() % SpeedMeter::kRecentWindows == 0)
    speed_planner_->learn(meter_.recent(), course.unix_seconds);
  if (spec_->elastic.mode != spec::ElasticMode::automatic || !is_settled(job)) return std::nullopt;
  if (past_.trial) {
    if (auto back = judge_trial(course)) return back;
  }
  const plan::Plan now = speed_planner_->current(latest);
  const Placement best = speed_planner_->best(latest, job.held);
  // The best plan for the present workers may leave one out; then moving ESTs comes first, as a move costs little.
  Placement moved = job.held.size() == job.workers.size()
                        ? best
                        : speed_planner_->best(latest, devices_of(decisions::devices_in_force(job)));
  if (moved.workers.size() != job.workers.size()) moved = speed_planner_->balanced(latest);
  const bool soon = move_watch_.observe(now.step_seconds, moved.plan.step_seconds);
  const bool late = return_watch_.observe(now.step_seconds, moved.plan.step_seconds);
  if (tried_in_vain(moved, course) ? late : soon) return follow(job, moved, now, course);
  if (resize_watch_.observe(now.step_seconds, best.plan.step_seconds)) return follow(job, best, now, course);
  return std::nullopt;
}

// Tells whether steps took longer with these shares a short while ago than now: a worker with long waits looks faster
// than in truth.
bool Adviser::tried_in_vain(const Placement& placement, const Course& course) const {
  const auto tried = tried_.find(shares_key(placement));
  return tried != tried_.end() && course.now_ns - tried->second.ended_ns < kLately &&
         tried->second.step_seconds > meter_.recent().step_seconds();
}

// Follows the best plan if the gain is worth the cost.
std::optional<Advice> Adviser::follow(const decisions::State& job, const Placement& best, const plan::Plan& now,
                                      const Course& course) const {
  const bool keeps_devices = best.workers.size() == job.workers.size() &&
                             std::ranges::none_of(best.workers, [](int64_t id) { return id < 0; });
  const double cost = keeps_devices ? past_.change_seconds(true, now.step_seconds) : resize_seconds(course);
  const plan::Verdict verdict = plan::weigh({now.step_seconds, best.plan.step_seconds, course.steps_left, cost});
  if (!verdict.worth) return std::nullopt;
  Advice advice{keeps_devices ? "ESTs are moved" : "other devices are used", verdict.reason,
                change_to(best, job.held, verdict.reason)};
  advice.change.keeps_devices = keeps_devices;
  return advice;
}

std::optional<Advice> Adviser::judge_trial(const Course& course) {
  if (!fall_back_) {
    plan::Plan before, now;
    before.step_seconds = past_.trial->step_seconds_before;
    now.step_seconds = past_.estimated_step_seconds;
    plan::FallBackWatch::Rules rules;
    rules.seconds = kTrialSlowSeconds;
    fall_back_.emplace(before, before.step_seconds, now, rules);
  }
  const auto decision = fall_back_->observe(meter_.recent(kLatestWindows).step_seconds(), seconds(course.now_ns));
  const bool proven = !decision && fall_back_->slow_seconds() == 0 && meter_.windows() >= kTrialWindows;
  if (!decision && !proven) return std::nullopt;
  const Trial trial = std::move(*past_.trial);
  past_.trial.reset();
  fall_back_.reset();
  if (!decision || !decision->fall_back) return std::nullopt;
  Advice advice{"back to " + list_of(trial.held_before), decision->reason, {}};
  advice.change.devices = trial.devices_before;
  advice.change.held = trial.held_before;
  advice.change.why = decision->reason;
  advice.change.estimated_step_seconds = trial.step_seconds_before;
  advice.change.plan_reason = "it was faster before";
  return advice;
}

std::optional<decisions::PendingChange> Adviser::best_change(const decisions::State& job, std::string* reason) const {
  const Placement best = speed_planner_->best(require_speeds(), job.held);
  *reason = best.plan.reason;
  if (shares_key(best) == shares_in_force_) return std::nullopt;
  return change_to(best, job.held, "best plan for the devices held");
}

OfferWeighed Adviser::weigh(const decisions::State& job, const Devices& offered, const WorkerRoom& room,
                            const Course& course) {
  const SpeedMeter::Span span = require_speeds();
  Devices usable = offered;
  const auto plan_for = [&] {
    Devices together = job.held;
    together.insert(together.end(), usable.begin(), usable.end());
    return speed_planner_->best(span, together);
  };
  Placement best = plan_for();
  while (!usable.empty() && std::ranges::count(best.workers, -1) > room.workers) {
    usable.pop_back();
    best = plan_for();
  }
  const Devices taken = beyond(devices_of(best.devices), job.held);
  const plan::Verdict verdict = plan::weigh(
      {speed_planner_->current(span).step_seconds, best.plan.step_seconds, course.steps_left, resize_seconds(course)});
  const bool no_memory = usable.empty() && !offered.empty();
  const bool takes = !taken.empty() && verdict.worth;
  OfferWeighed weighed;
  weighed.reason = no_memory ? room.reason : taken.empty() ? best.plan.reason : verdict.reason;
  weighed.what = takes ? fmt::format("offer of {}: {} taken", list_of(offered), list_of(taken))
                       : fmt::format("offer of {} declined", list_of(offered));
  weighed.answer = {{"offered", texts_of(offered)},
                    {"taken", texts_of(takes ? taken : Devices())},
                    {"step_seconds_now", span.step_seconds()},
                    {"step_seconds_estimated", best.plan.step_seconds},
                    {"reason", weighed.reason},
                    {"message", weighed.what + ": " + weighed.reason}};
  if (!takes) return weighed;
  Devices held = job.held;
  held.insert(held.end(), taken.begin(), taken.end());
  weighed.change = change_to(best, std::move(held), weighed.what);
  weighed.change->answer = weighed.answer;
  past_.trial = Trial{job.held, decisions::devices_in_force(job), span.step_seconds()};
  return weighed;
}

decisions::PendingChange Adviser::shrunk_to(const decisions::State& job, const Devices& staying, const Devices& held,
                                            const std::string& own) const {
  const std::string why = "devices were reclaimed";
  const SpeedMeter::Span span = meter_.recent();
  const Devices& use = staying.empty() ? held : staying;
  if (span.steps > 0 && span.workers.size() == job.workers.size()) {
    decisions::PendingChange best = change_to(speed_planner_->best(span, use), held, why);
    if (can_be_led(devices_of(best.devices), own)) return best;
  }
  decisions::PendingChange change;
  change.devices = placement::evenly(use);
  if (std::ssize(use) > spec_->job.ests) change.devices.resize(static_cast<size_t>(spec_->job.ests));
  change.held = held;
  change.why = why;
  return change;
}

}  // namespace estrain::launch
