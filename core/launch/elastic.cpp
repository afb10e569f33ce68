// The launcher's part in elasticity: offers of devices and their reclaim, plans that are followed, ESTs moved away from
// workers that became slow, growth that turned out to be none.

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/memory_use.h"
#include "core/launch/launcher.h"
#include "core/launch/machine.h"

namespace estrain::launch {
namespace {

constexpr size_t kLatestWindows = 2;         // what a plan for workers that changed their speed rests on
constexpr int64_t kTrialWindows = 40;        // as estimated for so many: a growth has proven itself
constexpr int64_t kLately = 60'000'000'000;  // ns
constexpr double kTrialSlowSeconds = 3;

}  // namespace

int64_t Launcher::steps_left() const { return std::max<int64_t>(0, manifest_->total_steps - trained()); }

void Launcher::note_decision(std::string what, std::string reason) {
  const int64_t step = trained();
  directory_.log_event("decision", {{"step", step}, {"what", what}, {"reason", reason}});
  printer_.note(fmt::format("step {}: {}: {}", step, what, reason));
  elastic_.note({step, std::move(what), std::move(reason)});
}

conduct::PendingChange Launcher::change_to(const Placement& placement, std::vector<std::string> held,
                                           std::string why) const {
  conduct::PendingChange change;
  change.devices = placement.devices;
  for (const int64_t id : placement.workers) change.workers.emplace_back(id);
  change.held = std::move(held);
  change.why = std::move(why);
  change.estimated_step_seconds = placement.plan.step_seconds;
  change.plan_reason = placement.plan.reason;
  return change;
}

// Whether these are the shares in force.
bool Launcher::is_in_force(const Placement& placement) const {
  return shares_key(placement.devices, placement.workers) == stage_shares_;
}

// Speeds as of late; throws where the stage has not gone on for long enough to be judged.
SpeedMeter::Span Launcher::require_speeds() const {
  SpeedMeter::Span span = speed_meter_.recent();
  if (span.steps == 0)
    throw Error(Fault::usage, "nothing is known yet of how fast the job is on its devices")
        .advise("try again when it has trained for a second");
  return span;
}

// What a change of devices takes from the training: as measured, else at most what starting the first workers took.
double Launcher::resize_seconds() const { return elastic_.change_seconds(false, state_.start_seconds); }

void Launcher::resize_as_planned(ClientId client) {
  const Placement best = companion_->best(require_speeds(), job_.held);
  if (is_in_force(best)) {
    control_->reply(client, {{"ok", true},
                             {"step", trained()},
                             {"message", "the devices and shares in force are the best: " + best.plan.reason}});
    return;
  }
  conduct::PendingChange change = change_to(best, job_.held, "best plan for the devices held");
  change.client = client;
  decide(conduct::ChangeAsked{std::move(change), {}});
}

// Refuses at once what the job cannot have.
void Launcher::ask_offer(ClientId client, const Json& request) {
  if (spec_.elastic.mode != spec::ElasticMode::automatic)
    throw Error(Fault::usage, "the job does not take offers: its elastic.mode is \"manual\"")
        .advise("use `estrain resize`, or start it with elastic.mode = \"auto\"");
  std::vector<Device> together = parse_devices(request.value("devices", ""));
  for (const std::string& kind : job_.held) together.push_back({kind, {}});
  check_wanted({together});
  decide(conduct::OfferAsked{client, request});
}

// Takes what of the offer makes the job enough faster, and says what and why.
void Launcher::take_or_decline(ClientId client, const std::vector<std::string>& offered) {
  const SpeedMeter::Span span = require_speeds();
  const WorkerRoom room = room_for_workers();
  std::vector<std::string> usable = offered;
  const auto plan_for = [&] {
    std::vector<std::string> together = job_.held;
    together.insert(together.end(), usable.begin(), usable.end());
    return companion_->best(span, together);
  };
  Placement best = plan_for();
  while (!usable.empty() && std::ranges::count(best.workers, -1) > room.workers) {
    usable.pop_back();
    best = plan_for();
  }
  const std::vector<std::string> taken = conduct::beyond(kinds_of(best.devices), job_.held);
  const plan::Verdict verdict =
      plan::weigh({companion_->current(span).step_seconds, best.plan.step_seconds, steps_left(), resize_seconds()});
  const bool no_memory = usable.empty() && !offered.empty();
  const std::string reason = no_memory ? room.reason : taken.empty() ? best.plan.reason : verdict.reason;
  const bool takes = !taken.empty() && verdict.worth;
  const std::string what =
      takes ? fmt::format("offer of {}: {} taken", conduct::list_of(offered), conduct::list_of(taken))
            : fmt::format("offer of {} declined", conduct::list_of(offered));
  note_decision(what, reason);
  Json answer = {{"offered", offered},
                 {"taken", takes ? taken : std::vector<std::string>()},
                 {"step_seconds_now", span.step_seconds()},
                 {"step_seconds_estimated", best.plan.step_seconds},
                 {"reason", reason},
                 {"message", what + ": " + reason}};
  if (!takes) {
    answer.update({{"ok", true}, {"step", trained()}});
    return control_->reply(client, answer);
  }
  std::vector<std::string> held = job_.held;
  held.insert(held.end(), taken.begin(), taken.end());
  conduct::PendingChange change = change_to(best, std::move(held), what);
  change.client = client;
  change.answer = std::move(answer);
  elastic_.trial = Trial{job_.held, devices_in_force(job_), span.step_seconds()};
  decide(conduct::ChangeAsked{std::move(change), {}});
}

// How many more workers there is memory for, if they take as much of their own as those that are there.
WorkerRoom Launcher::room_for_workers() const {
  uint64_t each = 1;
  for (const auto& [id, worker] : state_.workers) {
    const auto status = read_file_if_present(fmt::format("/proc/{}/status", worker.process.pid()));
    each = std::max(each, proc_bytes(status.value_or(""), "RssAnon").value_or(0));
  }
  const AvailableMemory free = available_memory(Machine::here(directory_.path()));
  const auto workers = static_cast<int64_t>(std::min<uint64_t>(free.bytes / each, 1 << 20));
  return {workers, fmt::format("a worker takes {} of memory, {} are {}", format_bytes(each), format_bytes(free.bytes),
                               free.from)};
}

// Gives devices back, whatever it costs, within the time that was set.
void Launcher::reclaim(ClientId client, const Json& request, int64_t arrived_ns) {
  conduct::ReclaimAsked asked{client, request, {}, request.value("within", 0.0), arrived_ns, {}};
  if (!(asked.within_seconds > 0))
    throw Error(Fault::usage, "a reclaim needs a time within which the devices are to be free");
  asked.wanted = kinds_of(parse_devices(request.value("devices", "")));
  const auto rest = conduct::without(job_.held, asked.wanted);
  if (memory_ && rest && !rest->empty()) {
    asked.shrunk = shrunk_to(conduct::common(kinds_of(devices_in_force(job_)), *rest), *rest);
    elastic_.trial.reset();
  }
  decide(std::move(asked));
}

// The workers' shares after some of them have gone: the best plan where speeds are known, else even ones.
conduct::PendingChange Launcher::shrunk_to(const std::vector<std::string>& staying,
                                           const std::vector<std::string>& held) const {
  const std::string why = "devices were reclaimed";
  const SpeedMeter::Span span = speed_meter_.recent();
  const std::vector<std::string>& use = staying.empty() ? held : staying;
  if (span.steps > 0 && span.workers.size() == job_.workers.size())
    return change_to(companion_->best(span, use), held, why);
  conduct::PendingChange change;
  for (const std::string& kind : use) {
    if (static_cast<int64_t>(change.devices.size()) < spec_.job.ests) change.devices.push_back({kind, {}});
  }
  change.held = held;
  change.why = why;
  return change;
}

// What was measured before, by whomever; a profile that cannot be read is no reason not to train.
void Launcher::load_profiles() {
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty()) return;
  try {
    companion_->profiles = profile_store(path).load().of(spec_, companion_->host());
  } catch (const Error& error) {
    printer_.note("warning: speeds measured earlier are not used: " + error.message());
  }
}

void Launcher::keep_profiles() {
  const SpeedMeter::Span& stage = speed_meter_.stage();
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty() || stage.steps == 0 || !workers_are_ordinary()) return;
  try {
    profile_store(path).update([&](profile::Profiles& profiles) {
      profiles.learn(spec_, companion_->host(), as_stage_speed(stage), unix_seconds());
    });
  } catch (const Error& error) {
    printer_.note("warning: the speeds measured are not kept: " + error.message());
  }
}

profile::ProfileStore Launcher::profile_store(const std::string& path) {
  return {path, [this](const std::string& sentence) { printer_.note("warning: " + sentence); }};
}

// Nobody is slow: what is measured goes for devices of their kind.
bool Launcher::workers_are_ordinary() const {
  return std::ranges::none_of(job_.workers, [&](const conduct::Member& worker) {
    const SpeedWatch::Speed* speed = speed_watch_.find(worker.id.value);
    return speed != nullptr && speed->slow;
  });
}

// After each window of steps: speeds are taken in, growth is judged, and ESTs move where that helps.
void Launcher::supervise_plan() {
  const SpeedMeter::Span latest = speed_meter_.recent(kLatestWindows);
  if (workers_are_ordinary() && speed_meter_.windows() % SpeedMeter::kRecentWindows == 0)
    companion_->learn(speed_meter_.recent(), unix_seconds());
  if (spec_.elastic.mode != spec::ElasticMode::automatic || !is_settled(job_)) return;
  if (elastic_.trial && judge_trial()) return;
  const plan::Plan now = companion_->current(latest);
  const Placement best = companion_->best(latest, job_.held);
  // The best plan for the workers that are there may leave one out; then moving ESTs comes first, as it costs little.
  Placement moved =
      job_.held.size() == job_.workers.size() ? best : companion_->best(latest, kinds_of(devices_in_force(job_)));
  if (moved.workers.size() != job_.workers.size()) moved = companion_->balanced(latest);
  const bool soon = move_watch_.observe(now.step_seconds, moved.plan.step_seconds);
  const bool late = return_watch_.observe(now.step_seconds, moved.plan.step_seconds);
  if (tried_in_vain(moved) ? late : soon) return follow(moved, now);
  if (resize_watch_.observe(now.step_seconds, best.plan.step_seconds)) follow(best, now);
}

// The shares in force are about to end: what they were worth.
void Launcher::note_shares() {
  const SpeedMeter::Span recent = speed_meter_.recent();
  if (recent.steps == 0) return;
  tried_[stage_shares_] = {recent.step_seconds(), monotonic_ns()};
}

// Whether steps took longer with these shares than they take now, not long ago: a worker that mostly waits may look
// faster than it is.
bool Launcher::tried_in_vain(const Placement& placement) const {
  const auto tried = tried_.find(shares_key(placement.devices, placement.workers));
  return tried != tried_.end() && monotonic_ns() - tried->second.ended_ns < kLately &&
         tried->second.step_seconds > speed_meter_.recent().step_seconds();
}

// If it is worth what it costs.
void Launcher::follow(const Placement& best, const plan::Plan& now) {
  const bool keeps_devices = best.workers.size() == job_.workers.size() &&
                             std::ranges::none_of(best.workers, [](int64_t id) { return id < 0; });
  const double cost = keeps_devices ? elastic_.change_seconds(true, now.step_seconds) : resize_seconds();
  const plan::Verdict verdict = plan::weigh({now.step_seconds, best.plan.step_seconds, steps_left(), cost});
  if (!verdict.worth) return;
  note_decision(keeps_devices ? "ESTs are moved" : "other devices are used", verdict.reason);
  conduct::PendingChange change = change_to(best, job_.held, verdict.reason);
  change.keeps_devices = keeps_devices;
  decide(conduct::ChangeAsked{std::move(change), {}});
}

// True: the growth was taken back.
bool Launcher::judge_trial() {
  if (!fall_back_) {
    plan::Plan before, now;
    before.step_seconds = elastic_.trial->step_seconds_before;
    now.step_seconds = elastic_.estimated_step_seconds;
    plan::FallBackWatch::Rules rules;
    rules.seconds = kTrialSlowSeconds;
    fall_back_.emplace(before, before.step_seconds, now, rules);
  }
  const auto decision =
      fall_back_->observe(speed_meter_.recent(kLatestWindows).step_seconds(), seconds(monotonic_ns()));
  const bool proven = !decision && fall_back_->slow_seconds() == 0 && speed_meter_.windows() >= kTrialWindows;
  if (!decision && !proven) return false;
  const Trial trial = std::move(*elastic_.trial);
  elastic_.trial.reset();
  fall_back_.reset();
  if (!decision || !decision->fall_back) return false;
  note_decision("back to " + conduct::list_of(trial.held_before), decision->reason);
  conduct::PendingChange change;
  change.devices = trial.devices_before;
  change.held = trial.held_before;
  change.why = decision->reason;
  change.estimated_step_seconds = trial.step_seconds_before;
  change.plan_reason = "it was faster before";
  decide(conduct::ChangeAsked{std::move(change), {}});
  return true;
}

}  // namespace estrain::launch
