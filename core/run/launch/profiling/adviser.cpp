#include "core/run/launch/profiling/adviser.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/clock.h"

namespace estrain::launch {
namespace {

constexpr size_t kLatestWindows = 2;   // the basis of a plan for workers with a changed speed
constexpr int64_t kTrialWindows = 40;  // windows at the estimated speed that prove a growth
constexpr Nanoseconds kLately = 60s;
constexpr double kTrialSlowSeconds = 3;

// Worker -1 is a worker to be started.
std::string shares_key(const Placement& placement) {
  std::string key;
  for (size_t i = 0; i < placement.devices.size(); ++i)
    key += fmt::format("{}={} ", placement.workers[i], placement.devices[i].ests.value_or(0));
  return key;
}

std::string shares_key(const decisions::RunState& job) {
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

// One call of advise().
struct Advising {
  AdviserState& state;
  const Course& now;
  const decisions::RunState& job = now.job;

  std::vector<AdviceAction> operator()(const HostKnown& known) const {
    state.planner = std::make_unique<SpeedPlanner>(*state.spec, known.host, known.allow_mixed);
    return {};
  }
  std::vector<AdviceAction> operator()(const ProfilesLoaded& loaded) const {
    state.planner->profiles = loaded.profiles;
    return {};
  }
  std::vector<AdviceAction> operator()(const TrainingUnderWay& began) const {
    state.past.stage_began = began.step.value;
    return {};
  }
  std::vector<AdviceAction> operator()(const StageBegan& began) const;
  std::vector<AdviceAction> operator()(const StageEnded& ended) const;
  std::vector<AdviceAction> operator()(const SharesReplaced&) const {
    state.move_watch.reset();
    state.return_watch.reset();
    state.resize_watch.reset();
    state.fall_back.reset();
    return {};
  }
  std::vector<AdviceAction> operator()(const BatchReplaced&) const {
    state.tried.clear();
    state.watch = {};
    state.past.trial.reset();
    return {};
  }
  std::vector<AdviceAction> operator()(const TrainingPaused&) const {
    state.meter.interrupt();
    return {};
  }
  std::vector<AdviceAction> operator()(const WorkSeen& seen) const;
  std::vector<AdviceAction> operator()(const NoiseSeen& seen) const {
    state.noise.observe(state.spec->job.ests, seen.batch, seen.sums);
    return {};
  }
  std::vector<AdviceAction> operator()(const DecisionNoted& noted) const {
    state.past.note(noted.decision);
    return {};
  }
  std::vector<AdviceAction> operator()(const PlanAdopted& plan) const {
    state.past.estimated_step_seconds = plan.estimated_step_seconds;
    state.past.plan_reason = plan.reason;
    return {};
  }
  std::vector<AdviceAction> operator()(const ChangeDone& done) const {
    state.past.count_change(done.seconds, done.keeps_devices);
    return {};
  }
  std::vector<AdviceAction> operator()(const DevicesOrdered&) const {
    state.past.trial.reset();
    return {};
  }
  std::vector<AdviceAction> operator()(const BestAsked&) const;
  std::vector<AdviceAction> operator()(const OfferMade& offer) const;
  std::vector<AdviceAction> operator()(const DevicesReclaimed& reclaimed) const;

 private:
  SpeedMeter::MeasuredSteps require_speeds() const;
  double resize_seconds() const { return state.past.change_seconds(false, now.start_seconds); }
  bool tried_in_vain(const Placement& placement) const;
  std::optional<AdviceAction> advise_after_window() const;
  std::optional<AdviceAction> follow(const Placement& best, const plan::Plan& current) const;
  std::optional<AdviceAction> judge_trial() const;
  decisions::PendingChange shrunk_to(const DevicesReclaimed& reclaimed) const;
};

std::vector<AdviceAction> Advising::operator()(const StageBegan& began) const {
  state.meter.begin(began.step.value);
  state.shares_in_force = shares_key(job);
  state.devices_in_force.clear();
  for (const decisions::Member& worker : job.workers)
    state.devices_in_force +=
        fmt::format("{}{}={}", state.devices_in_force.empty() ? "" : ",", worker.device.text(), worker.ests.size());
  return {};
}

std::vector<AdviceAction> Advising::operator()(const StageEnded& ended) const {
  state.past.end_stage(ended.step.value, state.devices_in_force, state.meter.stage().step_seconds());
  const SpeedMeter::MeasuredSteps recent = state.meter.recent();
  if (recent.steps > 0) state.tried[state.shares_in_force] = {recent.step_seconds(), now.time};
  return {};
}

std::vector<AdviceAction> Advising::operator()(const WorkSeen& seen) const {
  const bool window_complete =
      seen.last && state.meter.observe(seen.last->value, seen.last_at, seen.evaluated, seen.done);
  std::vector<AdviceAction> actions;
  for (const SpeedWatch::Speed& change : state.watch.observe(seen.trained.value, now.time, seen.done))
    actions.push_back({TellSpeed{change}, ""});
  if (!window_complete) return actions;
  if (auto proposal = advise_after_window()) actions.push_back(std::move(*proposal));
  return actions;
}

// Speeds as of late.
SpeedMeter::MeasuredSteps Advising::require_speeds() const {
  SpeedMeter::MeasuredSteps span = state.meter.recent();
  if (span.steps == 0)
    throw Error(Fault::usage, "nothing is known yet of how fast the job is on its devices")
        .advise("try again when it has trained for a second");
  return span;
}

std::optional<AdviceAction> Advising::advise_after_window() const {
  const SpeedMeter::MeasuredSteps latest = state.meter.recent(kLatestWindows);
  if (workers_are_ordinary(state, job) && state.meter.windows() % SpeedMeter::kRecentWindows == 0)
    state.planner->learn(state.meter.recent(), now.unix_seconds);
  if (state.spec->elastic.mode != spec::ElasticMode::automatic || !is_settled(job)) return std::nullopt;
  if (state.past.trial) {
    if (auto back = judge_trial()) return back;
  }
  const plan::Plan current = state.planner->current(latest);
  const Placement best = state.planner->best(latest, job.held);
  // The best plan for the present workers may leave one out; then moving ESTs comes first, as a move costs little.
  Placement moved = job.held.size() == job.workers.size()
                        ? best
                        : state.planner->best(latest, devices_of(decisions::devices_in_force(job)));
  if (moved.workers.size() != job.workers.size()) moved = state.planner->balanced(latest);
  const bool soon = state.move_watch.observe(current.step_seconds, moved.plan.step_seconds);
  const bool late = state.return_watch.observe(current.step_seconds, moved.plan.step_seconds);
  if (tried_in_vain(moved) ? late : soon) return follow(moved, current);
  if (state.resize_watch.observe(current.step_seconds, best.plan.step_seconds)) return follow(best, current);
  return std::nullopt;
}

// Tells whether steps took longer with these shares a short while ago than now: a worker with long waits looks faster
// than in truth.
bool Advising::tried_in_vain(const Placement& placement) const {
  const auto tried = state.tried.find(shares_key(placement));
  return tried != state.tried.end() && now.time - tried->second.ended < kLately &&
         tried->second.step_seconds > state.meter.recent().step_seconds();
}

// Follows the best plan if the gain is worth the cost.
std::optional<AdviceAction> Advising::follow(const Placement& best, const plan::Plan& current) const {
  const bool keeps_devices = best.workers.size() == job.workers.size() &&
                             std::ranges::none_of(best.workers, [](int64_t id) { return id < 0; });
  const double cost = keeps_devices ? state.past.change_seconds(true, current.step_seconds) : resize_seconds();
  const plan::ChangeWorth verdict = plan::weigh({current.step_seconds, best.plan.step_seconds, now.steps_left, cost});
  if (!verdict.worth) return std::nullopt;
  Propose proposal{keeps_devices ? "ESTs are moved" : "other devices are used",
                   change_to(best, job.held, verdict.reason)};
  proposal.change.keeps_devices = keeps_devices;
  return AdviceAction{std::move(proposal), verdict.reason};
}

// Judges the growth on trial. Returns advice to take the growth back, else nothing; a proven growth ends the trial.
std::optional<AdviceAction> Advising::judge_trial() const {
  if (!state.fall_back) {
    plan::Plan before, present;
    before.step_seconds = state.past.trial->step_seconds_before;
    present.step_seconds = state.past.estimated_step_seconds;
    plan::FallBackWatch::Rules rules;
    rules.seconds = kTrialSlowSeconds;
    state.fall_back.emplace(before, before.step_seconds, present, rules);
  }
  const auto decision = state.fall_back->observe(state.meter.recent(kLatestWindows).step_seconds(),
                                                 seconds(now.time.time_since_epoch()).count());
  const bool proven = !decision && state.fall_back->slow_seconds() == 0 && state.meter.windows() >= kTrialWindows;
  if (!decision && !proven) return std::nullopt;
  const GrowthTrial trial = std::move(*state.past.trial);
  state.past.trial.reset();
  state.fall_back.reset();
  if (!decision || !decision->fall_back) return std::nullopt;
  Propose back{"back to " + list_of(trial.held_before), {}};
  back.change.devices = trial.devices_before;
  back.change.held = trial.held_before;
  back.change.why = decision->reason;
  back.change.estimated_step_seconds = trial.step_seconds_before;
  back.change.plan_reason = "it was faster before";
  return AdviceAction{std::move(back), decision->reason};
}

std::vector<AdviceAction> Advising::operator()(const BestAsked&) const {
  const Placement best = state.planner->best(require_speeds(), job.held);
  if (shares_key(best) == state.shares_in_force) return {AdviceAction{StayAsNow{}, best.plan.reason}};
  return {AdviceAction{Propose{"", change_to(best, job.held, "best plan for the devices held")}, best.plan.reason}};
}

std::vector<AdviceAction> Advising::operator()(const OfferMade& offer) const {
  const Devices& offered = offer.offered;
  const SpeedMeter::MeasuredSteps span = require_speeds();
  Devices usable = offered;
  const auto plan_for = [&] {
    Devices together = job.held;
    together.insert(together.end(), usable.begin(), usable.end());
    return state.planner->best(span, together);
  };
  Placement best = plan_for();
  while (!usable.empty() && std::ranges::count(best.workers, -1) > offer.room.workers) {
    usable.pop_back();
    best = plan_for();
  }
  const Devices taken = beyond(devices_of(best.devices), job.held);
  const plan::ChangeWorth verdict = plan::weigh(
      {state.planner->current(span).step_seconds, best.plan.step_seconds, now.steps_left, resize_seconds()});
  const bool no_memory = usable.empty() && !offered.empty();
  const bool takes = !taken.empty() && verdict.worth;
  const std::string reason = no_memory ? offer.room.reason : taken.empty() ? best.plan.reason : verdict.reason;
  const std::string what = takes ? fmt::format("offer of {}: {} taken", list_of(offered), list_of(taken))
                                 : fmt::format("offer of {} declined", list_of(offered));
  Json answer = {{"offered", texts_of(offered)},
                 {"taken", texts_of(takes ? taken : Devices())},
                 {"step_seconds_now", span.step_seconds()},
                 {"step_seconds_estimated", best.plan.step_seconds},
                 {"reason", reason},
                 {"message", what + ": " + reason}};
  if (!takes) return {AdviceAction{Decline{what, std::move(answer)}, reason}};
  Devices held = job.held;
  held.insert(held.end(), taken.begin(), taken.end());
  decisions::PendingChange change = change_to(best, std::move(held), what);
  change.answer = std::move(answer);
  state.past.trial = GrowthTrial{job.held, decisions::devices_in_force(job), span.step_seconds()};
  return {AdviceAction{Propose{what, std::move(change)}, reason}};
}

std::vector<AdviceAction> Advising::operator()(const DevicesReclaimed& reclaimed) const {
  decisions::PendingChange change = shrunk_to(reclaimed);
  state.past.trial.reset();
  const std::string reason = change.why;
  return {AdviceAction{Propose{"", std::move(change)}, reason}};
}

decisions::PendingChange Advising::shrunk_to(const DevicesReclaimed& reclaimed) const {
  const auto& [staying, held, own] = reclaimed;
  const std::string why = "devices were reclaimed";
  const SpeedMeter::MeasuredSteps span = state.meter.recent();
  const Devices& use = staying.empty() ? held : staying;
  if (span.steps > 0 && span.workers.size() == job.workers.size()) {
    decisions::PendingChange best = change_to(state.planner->best(span, use), held, why);
    if (can_be_led(devices_of(best.devices), own)) return best;
  }
  decisions::PendingChange change;
  change.devices = placement::evenly(use);
  if (std::ssize(use) > state.spec->job.ests) change.devices.resize(static_cast<size_t>(state.spec->job.ests));
  change.held = held;
  change.why = why;
  return change;
}

}  // namespace

bool workers_are_ordinary(const AdviserState& state, const decisions::RunState& job) {
  return std::ranges::none_of(job.workers, [&](const decisions::Member& worker) {
    const SpeedWatch::Speed* speed = state.watch.find(worker.id.value);
    return speed != nullptr && speed->slow;
  });
}

std::vector<AdviceAction> advise(AdviserState& state, const AdviceEvent& event, const Course& now) {
  return std::visit(Advising{state, now}, event);
}

}  // namespace estrain::launch
