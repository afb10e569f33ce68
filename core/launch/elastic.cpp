// The launcher's part in elasticity: offers of devices and their reclaim, plans that are followed, ESTs moved away from
// workers that became slow, growth that turned out to be none.

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/memory_use.h"
#include "core/launch/launcher.h"
#include "core/launch/machine.h"

namespace estrain::launch {
namespace {

constexpr double kHurryAt = 0.5;       // of the time within which devices are to be given back: the step is given up
constexpr double kKillAt = 0.8;        // and whoever still holds one is killed
constexpr size_t kLatestWindows = 2;   // what a plan for workers that changed their speed rests on
constexpr int64_t kTrialWindows = 40;  // as estimated for so many: a growth has proven itself
constexpr int64_t kLately = 60'000'000'000;  // ns
constexpr double kTrialSlowSeconds = 3;

// `all` without one of each of `some`; nothing where one is not in it.
std::optional<std::vector<std::string>> without(std::vector<std::string> all, const std::vector<std::string>& some) {
  for (const std::string& kind : some) {
    const auto at = std::ranges::find(all, kind);
    if (at == all.end()) return std::nullopt;
    all.erase(at);
  }
  return all;
}

// What is in both.
std::vector<std::string> common(const std::vector<std::string>& one, std::vector<std::string> other) {
  std::vector<std::string> both;
  for (const std::string& kind : one) {
    const auto at = std::ranges::find(other, kind);
    if (at == other.end()) continue;
    both.push_back(kind);
    other.erase(at);
  }
  return both;
}

// What `all` has more than `some`.
std::vector<std::string> beyond(const std::vector<std::string>& all, std::vector<std::string> some) {
  std::vector<std::string> more;
  for (const std::string& kind : all) {
    const auto at = std::ranges::find(some, kind);
    if (at == some.end()) {
      more.push_back(kind);
    } else {
      some.erase(at);
    }
  }
  return more;
}

std::string shares_text(const std::vector<Device>& devices, const std::vector<int64_t>& workers) {
  std::string text;
  for (size_t i = 0; i < devices.size(); ++i) text += fmt::format("{}={} ", workers[i], devices[i].ests.value_or(0));
  return text;
}

std::string list_of(const std::vector<std::string>& kinds) {
  return kinds.empty() ? "none" : fmt::format("{}", fmt::join(kinds, ","));
}

}  // namespace

std::vector<Device> Launcher::devices_in_force() const {
  std::vector<Device> devices;
  for (const WorkerProcess& worker : state_.workers) devices.push_back({worker.device.kind, worker.ests.size()});
  return devices;
}

int64_t Launcher::steps_left() const { return std::max<int64_t>(0, manifest_->total_steps - trained()); }

// For an offer or reclaim that comes while the workers are changing: served when they have.
void Launcher::serve_waiting() {
  while (phase_ == Phase::training && !state_.resize && ending_ == Ending::none && !state_.waiting.empty()) {
    const WaitingRequest next = std::move(state_.waiting.front());
    state_.waiting.erase(state_.waiting.begin());
    on_request(next.client, next.request, next.arrived_ns);
  }
}

void Launcher::note_decision(std::string what, std::string reason) {
  const int64_t step = trained();
  directory_.log_event("decision", {{"step", step}, {"what", what}, {"reason", reason}});
  printer_.note(fmt::format("step {}: {}: {}", step, what, reason));
  elastic_.note({step, std::move(what), std::move(reason)});
}

PendingChange Launcher::change_to(const Placement& placement, std::vector<std::string> held, std::string why) const {
  PendingChange change;
  change.devices = placement.devices;
  change.workers = placement.workers;
  change.held = std::move(held);
  change.why = std::move(why);
  change.estimated_step_seconds = placement.plan.step_seconds;
  change.plan_reason = placement.plan.reason;
  return change;
}

// Whether these are the shares in force.
bool Launcher::is_in_force(const Placement& placement) const {
  return std::ranges::equal(placement.devices, state_.workers,
                            [](const Device& device, const WorkerProcess& worker) {
                              return device.kind == worker.device.kind && device.ests == worker.ests.size();
                            }) &&
         std::ranges::equal(placement.workers, state_.workers, {}, {}, &WorkerProcess::id);
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
  const Placement best = companion_->best(require_speeds(), state_.held);
  if (is_in_force(best)) {
    control_->reply(client, {{"ok", true},
                             {"step", trained()},
                             {"message", "the devices and shares in force are the best: " + best.plan.reason}});
    return;
  }
  PendingChange change = change_to(best, state_.held, "best plan for the devices held");
  change.client = client;
  begin_change(std::move(change));
}

// Takes what of the offer makes the job enough faster, and says what and why.
void Launcher::weigh_offer(ClientId client, const Json& request) {
  if (spec_.elastic.mode != spec::ElasticMode::automatic)
    throw Error(Fault::usage, "the job does not take offers: its elastic.mode is \"manual\"")
        .advise("use `estrain resize`, or start it with elastic.mode = \"auto\"");
  const std::vector<Device> offered = parse_devices(request.value("devices", ""));
  std::vector<Device> together = offered;
  for (const std::string& kind : state_.held) together.push_back({kind, {}});
  check_wanted({together});
  if (ending_ != Ending::none) throw Error(Fault::usage, "the job is ending");
  if (phase_ != Phase::training || state_.resize) {  // when it has settled
    state_.waiting.push_back({client, request, monotonic_ns()});
    return;
  }
  take_or_decline(client, kinds_of(offered));
}

void Launcher::take_or_decline(ClientId client, const std::vector<std::string>& offered) {
  const SpeedMeter::Span span = require_speeds();
  const WorkerRoom room = room_for_workers();
  std::vector<std::string> usable = offered;
  const auto plan_for = [&] {
    std::vector<std::string> together = state_.held;
    together.insert(together.end(), usable.begin(), usable.end());
    return companion_->best(span, together);
  };
  Placement best = plan_for();
  while (!usable.empty() && std::ranges::count(best.workers, -1) > room.workers) {
    usable.pop_back();
    best = plan_for();
  }
  const std::vector<std::string> taken = beyond(kinds_of(best.devices), state_.held);
  const plan::Verdict verdict =
      plan::weigh({companion_->current(span).step_seconds, best.plan.step_seconds, steps_left(), resize_seconds()});
  const bool no_memory = usable.empty() && !offered.empty();
  const std::string reason = no_memory ? room.reason : taken.empty() ? best.plan.reason : verdict.reason;
  const bool takes = !taken.empty() && verdict.worth;
  const std::string what = takes ? fmt::format("offer of {}: {} taken", list_of(offered), list_of(taken))
                                 : fmt::format("offer of {} declined", list_of(offered));
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
  std::vector<std::string> held = state_.held;
  held.insert(held.end(), taken.begin(), taken.end());
  PendingChange change = change_to(best, std::move(held), what);
  change.client = client;
  change.answer = std::move(answer);
  elastic_.trial = Trial{state_.held, devices_in_force(), span.step_seconds()};
  begin_change(std::move(change));
}

// How many more workers there is memory for, if they take as much of their own as those that are there.
WorkerRoom Launcher::room_for_workers() const {
  uint64_t each = 1;
  for (const WorkerProcess& worker : state_.workers) {
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
  const double within = request.value("within", 0.0);
  if (!(within > 0)) throw Error(Fault::usage, "a reclaim needs a time within which the devices are to be free");
  const std::vector<std::string> wanted = kinds_of(parse_devices(request.value("devices", "")));
  const auto rest = without(state_.held, wanted);
  if (!rest) {
    throw Error::make(Fault::usage, "the job does not hold {}; it holds {}", list_of(wanted), list_of(state_.held))
        .advise("see `estrain status`");
  }
  if (ending_ != Ending::none) throw Error(Fault::usage, "the job is ending");
  const int64_t deadline_ns = arrived_ns + nanoseconds(within);
  if (rest->empty()) {
    stop_clients_.push_back(client);
    state_.grace_seconds = std::min(state_.grace_seconds, within * kHurryAt);
    return request_stop("all its devices were reclaimed");
  }
  const bool another_first = pending_ && pending_->give_back_ns;
  if (phase_ == Phase::starting || state_.resize || another_first) {
    if (another_first)  // which has to leave this one the time it needs
      pending_->give_back_ns = std::min(*pending_->give_back_ns, arrived_ns + (deadline_ns - arrived_ns) / 2);
    state_.waiting.push_back({client, request, arrived_ns});
    return;
  }
  if (phase_ == Phase::warming)
    give_up_resize(Error::make(Fault::usage, "{} {} reclaimed", list_of(wanted), wanted.size() > 1 ? "are" : "is"));
  elastic_.trial.reset();
  const std::vector<std::string> staying = common(kinds_of(devices_in_force()), *rest);
  note_decision("reclaim of " + list_of(wanted), fmt::format("to be given back within {:.1f} s", within));
  if (staying.size() == state_.workers.size() && phase_ == Phase::training) {  // they were idle
    state_.held = *rest;
    directory_.log_event("reclaimed", {{"step", trained()}, {"seconds", seconds(monotonic_ns() - arrived_ns)}});
    control_->reply(client, {{"ok", true}, {"step", trained()}, {"message", "they were idle"}});
    return;
  }
  PendingChange change = shrunk_to(staying, *rest);
  change.client = client;
  change.give_back_ns = deadline_ns;
  change.answer = Json{{"reclaimed", wanted}, {"held", *rest}};
  if (phase_ == Phase::training) return begin_change(std::move(change), arrived_ns);
  replace_pending(std::move(change), arrived_ns);
}

// The workers' shares after some of them have gone: the best plan where speeds are known, else even ones.
PendingChange Launcher::shrunk_to(const std::vector<std::string>& staying, const std::vector<std::string>& held) const {
  const std::string why = "devices were reclaimed";
  const SpeedMeter::Span span = speed_meter_.recent();
  const std::vector<std::string>& use = staying.empty() ? held : staying;
  if (span.steps > 0 && span.workers.size() == state_.workers.size())
    return change_to(companion_->best(span, use), held, why);
  PendingChange change;
  for (const std::string& kind : use) {
    if (static_cast<int64_t>(change.devices.size()) < spec_.job.ests) change.devices.push_back({kind, {}});
  }
  change.held = held;
  change.why = why;
  return change;
}

// The workers are leaving their loop for a change already, or because of a fault: they will find this one instead.
void Launcher::replace_pending(PendingChange change, int64_t arrived_ns) {
  if (pending_) {
    change.added = std::move(pending_->added);
    if (pending_->client)
      control_->reply(*pending_->client, error_answer(Error(Fault::usage, "given up: devices were reclaimed")));
  }
  ask_for(std::move(change), arrived_ns);
  start_missing_workers();
  change_workers_if_ready();
}

// Devices that are to be given back and are not yet: first the step under way is given up, then workers are killed.
void Launcher::hurry_reclaim(int64_t now) {
  if (!pending_ || !pending_->give_back_ns) return hurry_waiting_reclaims(now);
  const int64_t begin = pending_->requested_ns, length = *pending_->give_back_ns - begin;
  const auto passed = [&](double part) {
    return now >= begin + static_cast<int64_t>(part * static_cast<double>(length));
  };
  if ((phase_ == Phase::pausing || phase_ == Phase::warming) && passed(kHurryAt)) stand_still();
  if (phase_ != Phase::recovering || !passed(kKillAt)) return;
  for (WorkerProcess* worker : unneeded_workers()) kill_worker(*worker);
  std::erase_if(state_.workers, [](const WorkerProcess& worker) { return !worker.process.running(); });
  change_workers_if_ready();
}

// A reclaim that came while the job started: a start that takes too long ends here, to be resumed.
void Launcher::hurry_waiting_reclaims(int64_t now) {
  for (const WaitingRequest& waiting : state_.waiting) {
    if (waiting.request.value("do", "") != "reclaim") continue;
    const int64_t within = nanoseconds(waiting.request.value("within", 0.0) * kHurryAt);
    if (phase_ == Phase::starting && now - waiting.arrived_ns > within)
      return request_stop("devices were reclaimed while the job was starting");
  }
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
  return std::ranges::none_of(state_.workers, [&](const WorkerProcess& worker) {
    const SpeedWatch::Speed* speed = speed_watch_.find(worker.id);
    return speed != nullptr && speed->slow;
  });
}

// After each window of steps: speeds are taken in, growth is judged, and ESTs move where that helps.
void Launcher::supervise_plan() {
  const SpeedMeter::Span latest = speed_meter_.recent(kLatestWindows);
  if (workers_are_ordinary() && speed_meter_.windows() % SpeedMeter::kRecentWindows == 0)
    companion_->learn(speed_meter_.recent(), unix_seconds());
  if (spec_.elastic.mode != spec::ElasticMode::automatic || state_.resize || ending_ != Ending::none) return;
  if (elastic_.trial && judge_trial()) return;
  const plan::Plan now = companion_->current(latest);
  const Placement best = companion_->best(latest, state_.held);
  // The best plan for the workers that are there may leave one out; then moving ESTs comes first, as it costs little.
  Placement moved =
      state_.held.size() == state_.workers.size() ? best : companion_->best(latest, kinds_of(devices_in_force()));
  if (moved.workers.size() != state_.workers.size()) moved = companion_->balanced(latest);
  const bool soon = move_watch_.observe(now.step_seconds, moved.plan.step_seconds);
  const bool late = return_watch_.observe(now.step_seconds, moved.plan.step_seconds);
  if (tried_in_vain(moved) ? late : soon) return follow(moved, now);
  if (resize_watch_.observe(now.step_seconds, best.plan.step_seconds)) follow(best, now);
}

// The shares in force are about to end: what they were worth.
void Launcher::note_shares() {
  const SpeedMeter::Span recent = speed_meter_.recent();
  if (recent.steps == 0) return;
  std::vector<int64_t> workers;
  for (const WorkerProcess& worker : state_.workers) workers.push_back(worker.id);
  tried_[shares_text(devices_in_force(), workers)] = {recent.step_seconds(), monotonic_ns()};
}

// Whether steps took longer with these shares than they take now, not long ago: a worker that mostly waits may look
// faster than it is.
bool Launcher::tried_in_vain(const Placement& placement) const {
  const auto tried = tried_.find(shares_text(placement.devices, placement.workers));
  return tried != tried_.end() && monotonic_ns() - tried->second.ended_ns < kLately &&
         tried->second.step_seconds > speed_meter_.recent().step_seconds();
}

// If it is worth what it costs.
void Launcher::follow(const Placement& best, const plan::Plan& now) {
  const bool keeps_devices = best.workers.size() == state_.workers.size() &&
                             std::ranges::none_of(best.workers, [](int64_t id) { return id < 0; });
  const double cost = keeps_devices ? elastic_.change_seconds(true, now.step_seconds) : resize_seconds();
  const plan::Verdict verdict = plan::weigh({now.step_seconds, best.plan.step_seconds, steps_left(), cost});
  if (!verdict.worth) return;
  note_decision(keeps_devices ? "ESTs are moved" : "other devices are used", verdict.reason);
  PendingChange change = change_to(best, state_.held, verdict.reason);
  change.keeps_devices = keeps_devices;
  begin_change(std::move(change));
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
  note_decision("back to " + list_of(trial.held_before), decision->reason);
  PendingChange change;
  change.devices = trial.devices_before;
  change.held = trial.held_before;
  change.why = decision->reason;
  change.estimated_step_seconds = trial.step_seconds_before;
  change.plan_reason = "it was faster before";
  begin_change(std::move(change));
  return true;
}

}  // namespace estrain::launch
