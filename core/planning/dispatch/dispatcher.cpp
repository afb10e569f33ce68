#include "core/planning/dispatch/dispatcher.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/base/json/codec.h"
#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"

namespace estrain::dispatch {
namespace {

constexpr double kOneMoment = 0.05;  // s: two looks within this time are the same look

constexpr std::array<std::string_view, 9> kPhaseNames = {"checking", "waiting", "starting", "running",  "changing",
                                                         "stopping", "done",    "failed",   "cancelled"};

Job& job_of(State& state, JobId id) {
  const auto at = state.jobs.find(id);
  if (at == state.jobs.end())
    throw Error::make(Fault::usage, "there is no job {}", id).advise("see `estrain pool list`");
  return at->second;
}

int64_t held_in_all(const State& state, JobId id) { return std::ranges::count(state.slots, id, &Slot::holder); }

// Begins to count the job's steps, from this moment, with the present devices, at this step.
void begin_to_watch(const State& state, Job& job, int64_t step, double now) {
  job.seen_at = now;
  job.seen_devices = held_in_all(state, job.id);
  job.seen_step = step;
  job.seen_in_use.clear();
  for (const Slot& slot : state.slots) {
    if (slot.holder == job.id) job.seen_in_use[slot.host()] = in_use_on(state, slot.host());
  }
}

// Continues the count for a job that nobody has looked at since seen_at. Meanwhile all jobs have held their present
// devices.
void go_on_watching(State& state, Job& job, double now) {
  const double since = now - job.seen_at;
  for (const Slot* slot : slots_of(state, job.id)) job.seen_in_use[slot->host()] = in_use_on(state, slot->host());
  for (const Slot& slot : state.slots) {
    const auto at = job.seen_in_use.find(slot.host());
    if (slot.holder != 0 && at != job.seen_in_use.end()) at->second -= since;
  }
}

// Counts the steps of a job with the same devices since seen_at. `told`: s of a step, by the launcher.
void see(State& state, Job& job, int64_t step, double told, double now) {
  const double passed = now - job.seen_at;
  if (job.seen_at > 0 && passed < kOneMoment) return;
  const std::vector<Slot*> slots = slots_of(state, job.id);
  if (job.seen_at > 0 && !slots.empty()) {
    double used = 0;  // on the job's hosts
    for (const auto& [host, before] : job.seen_in_use) used += in_use_on(state, host) - before;
    const double in_use = std::max(static_cast<double>(job.seen_devices), used / passed);
    const double owners = job.owners_steps();
    const double steps = static_cast<double>(step - job.seen_step) * owners;
    job.speeds.saw({slots[0]->type(), job.seen_devices, in_use, steps, passed, told / owners}, now);
  }
  begin_to_watch(state, job, step, now);
}

// Counts the job's first steps, made before the first look. Returns the s that these steps took; 0: not known.
double see_first(State& state, Job& job, int64_t step, int64_t steps, double step_seconds, double now) {
  const std::vector<Slot*> slots = slots_of(state, job.id);
  if (slots.empty() || steps <= 0 || !(step_seconds > 0)) return 0;
  const double passed = std::min(static_cast<double>(steps) * step_seconds, now - slots[0]->since);
  begin_to_watch(state, job, step - steps, now - passed);
  go_on_watching(state, job, now);
  see(state, job, step, step_seconds, now);
  return passed;
}

// Counts the job's last steps on these devices, up to this step; 0: not known.
void see_last(State& state, Job& job, int64_t step, double now) {
  if (job.seen_at > 0 && step > job.seen_step) see(state, job, step, 0, now);
  job.step = std::max(job.step, step);
  job.seen_at = 0;
}

Target held_by(const State& state, JobId id) {
  Target held;
  for (const Slot& slot : state.slots) {
    if (slot.holder == id) ++held[slot.group()];
  }
  return held;
}

Target common_to(const Target& one, const Target& other) {
  Target both;
  for (const auto& [group, count] : one) {
    const auto at = other.find(group);
    if (const int64_t least = at == other.end() ? 0 : std::min(count, at->second); least > 0) both[group] = least;
  }
  return both;
}

// Where the job has fewer devices than expected, the job declined devices, was unable to take them, or lost them: the
// policy is told the truth, and offers the job no devices before that moment. A job with as many as expected did its
// part: the job was not yet asked to take the rest of its target.
void limit_to_held(const State& state, Job& job, const Target& expected, double no_growth_before) {
  const Target has = held_by(state, job.id);
  const auto falls_short = [&](const auto& entry) {
    const auto at = has.find(entry.first);
    return std::min(entry.second, wanted(job, entry.first)) > (at == has.end() ? 0 : at->second);
  };
  if (std::ranges::none_of(expected, falls_short)) return;
  job.no_growth_before = no_growth_before;
  for (auto& [group, count] : job.target) {
    const auto at = has.find(group);
    count = std::min(count, at == has.end() ? 0 : at->second);
  }
  std::erase_if(job.target, [](const auto& entry) { return entry.second == 0; });
}

void count_lost(State& state, Job& job, double lost) {
  job.lost += lost;
  if (lost > 0) state.charge = state.charge > 0 ? 0.7 * state.charge + 0.3 * lost : lost;
}

Note changed_note(const Job& job, double lost) {
  return note_of(job, "changed", fmt::format("it stood still for {:.3f} s", lost));
}

// Notes that a starting job runs now. `earlier`: the job has already trained for so many seconds; 0: not known.
Note begin_to_train(Job& job, double earlier = 0) {
  job.phase = Phase::running;
  job.was_lost = false;
  return note_of(
      job, "trains",
      earlier > 0 ? fmt::format("its first step began {:.3f} s earlier", earlier) : "its first step has begun");
}

Note finish(Job& job, Phase phase, std::string reason, double now) {
  job.phase = phase;
  job.reason = std::move(reason);
  job.finished = now;
  job.target.clear();
  job.owed = 0;
  return note_of(job, std::string(phase_name(phase)), job.reason);
}

}  // namespace

std::string_view phase_name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

Json to_field(Phase phase) { return phase_name(phase); }

void from_field(const Json& json, Phase& phase) {
  const auto at = std::ranges::find(kPhaseNames, json);
  if (at == kPhaseNames.end()) codec::refuse_message("not a phase of a job");
  phase = static_cast<Phase>(at - kPhaseNames.begin());
}

Dispatcher::Dispatcher(State state, const Settings& settings)
    : state_(std::move(state)),
      settings_(settings),
      policy_(scheduling::make_policy_for_real_jobs(state_.policy, state_.seed)) {
  for (auto& [id, job] : state_.jobs) {
    if (job.phase == Phase::changing) underway_.asked[id] = {{}, common_to(held_by(state_, id), job.target)};
    if (job.phase == Phase::checking) actions_.emplace_back(CheckJob{id});
    if (job.seen_at > 0) go_on_watching(state_, job, state_.seen);
  }
}

std::vector<Action> Dispatcher::take_actions() { return std::exchange(actions_, {}); }

void Dispatcher::wake(double now) {
  stale_ = true;
  if (!taking_up_) tick(now);
}

void Dispatcher::tick(double now) {
  taking_up_ = false;
  account(state_, now);
  if (stale_ || round_is_over(now) || now < decided_) decide(now);
  bring_about(state_, settings_, underway_, actions_, now);
  complete_withdrawals(state_, underway_, actions_, now);
}

JobId Dispatcher::submit(const Request& request, double now) {
  if (request.least < 0 || request.most < 1 || request.least > request.most) {
    throw Error::make(Fault::usage, "a job cannot have at least {} and at most {} devices", request.least,
                      request.most);
  }
  if (request.deadline && *request.deadline <= now) throw Error(Fault::usage, "the deadline is over already");
  const auto is_there = [&](const Slot& slot) { return slot.type() == request.type; };
  if (!request.type.empty() && std::ranges::none_of(state_.slots, is_there)) {
    throw Error::make(Fault::infeasible, "the job wants {}, and the pool has no such device", request.type)
        .advise("name other devices in the spec's resources.devices, or add some: estrain pool devices add");
  }
  Job& job = state_.jobs[++state_.last_job];
  job.id = state_.last_job;
  job.request = request;
  job.submitted = now;
  job.reason = "is being checked";
  actions_.emplace_back(CheckJob{job.id});
  actions_.emplace_back(note_of(job, "submitted", "by " + request.user));
  tick(now);
  return job.id;
}

void Dispatcher::number_from(JobId id) { state_.last_job = std::max(state_.last_job, id - 1); }

void Dispatcher::forget(JobId id) {
  state_.jobs.erase(id);
  std::erase_if(actions_, [&](const Action& action) {
    const auto* check = std::get_if<CheckJob>(&action);
    const auto* line = std::get_if<Note>(&action);
    return (check != nullptr && check->job == id) || (line != nullptr && line->job == id);
  });
}

void Dispatcher::cancel(JobId id, double now) {
  Job& one = job_of(state_, id);
  if (is_over(one.phase)) throw Error::make(Fault::usage, "job {} is over already: {}", id, phase_name(one.phase));
  if (is_up(one.phase)) {
    one.is_unwanted = true;
    one.target.clear();
  } else {
    actions_.emplace_back(finish(one, Phase::cancelled, "cancelled", now));
  }
  wake(now);
}

void Dispatcher::choose_policy(const std::string& policy, double now) {
  scheduling::PolicyChoice choice = scheduling::make_policy_for_real_jobs(policy, state_.seed);
  require_known(choice, types_with(state_, {}));
  policy_ = std::move(choice);
  state_.policy = policy;
  actions_.emplace_back(Note{0, "policy", 0, policy});
  wake(now);
}

void Dispatcher::host_has(const std::string& host, int64_t cores) { state_.cores[host] = cores; }

void Dispatcher::checked(JobId id, const Checked& result, double now) {
  Job& one = job_of(state_, id);
  if (one.phase != Phase::checking) return wake(now);  // cancelled meanwhile
  if (!result.fine) {
    actions_.emplace_back(finish(one, Phase::failed, "check: " + result.reason, now));
    return wake(now);
  }
  one.phase = Phase::waiting;
  one.reason = "waits for devices";
  if (result.total_steps > 0) one.request.total_steps = result.total_steps;
  if (one.request.batch) one.batch.own_steps = result.total_steps;
  if (result.mini_batch_seconds > 0) one.speeds.expect(result.mini_batch_seconds);
  one.work = result.work;
  actions_.emplace_back(note_of(one, "admitted", "check found nothing"));
  wake(now);
}

void Dispatcher::trains(JobId id, double now) {
  account(state_, now);
  Job& one = job_of(state_, id);
  if (one.phase == Phase::starting) {
    actions_.emplace_back(begin_to_train(one));
    begin_to_watch(state_, one, one.step, now);  // steps already made count from here on, too
  }
  tick(now);
}

void Dispatcher::progressed(JobId id, const Progress& progress, double now) {
  Job& one = job_of(state_, id);
  if (is_over(one.phase)) return;
  one.step = std::max(one.step, progress.step);
  if (progress.total_steps > 0) one.request.total_steps = progress.total_steps;
  const std::vector<Slot*> slots = slots_of(state_, id);
  const bool settled = one.phase == Phase::running && !slots.empty() && progress.devices == std::ssize(slots);
  const bool alike = std::ranges::all_of(slots, [&](const Slot* slot) { return slot->type() == slots[0]->type(); });
  if (!settled || !alike) {
    if (one.phase == Phase::running) one.seen_at = 0;  // while the job changes or stops, seen_at stays
    return;
  }
  one.speeds.observe(slots[0]->type(), progress.devices, progress.step_seconds);
  if (one.request.batch && progress.devices_at_work > 0) {
    const int64_t turns = most_ests(one.request.ests, progress.devices_at_work);
    one.batch_times.observe(one.batch_in_force(), progress.step_seconds / static_cast<double>(turns));
  }
  account(state_, now);
  if (one.seen_at == 0 || progress.step > one.seen_step) see(state_, one, progress.step, progress.step_seconds, now);
}

void Dispatcher::changed(JobId id, const Changed& change, double now) {
  account(state_, now);
  Job& one = job_of(state_, id);
  if (!is_up(one.phase)) return;
  see_last(state_, one, change.step, now);
  const Target given = held_by(state_, id);
  hold(state_, id, change.held);
  count_lost(state_, one, change.lost);
  if (one.phase != Phase::changing) {
    if (one.phase == Phase::running) limit_to_held(state_, one, given, now + settings_.growth_pause);
    return tick(now);
  }
  one.phase = Phase::running;
  if (change.step > 0) begin_to_watch(state_, one, change.step, now);
  underway_.asked_to_let_go.erase(id);
  limit_to_held(state_, one, underway_.asked[id].then, now + settings_.growth_pause);
  const bool was_asked_for_devices = std::exchange(one.batch.wanted, 0) == 0;
  if (was_asked_for_devices) actions_.emplace_back(changed_note(one, change.lost));
  wake(now);
}

void Dispatcher::orphaned(JobId id, double now) {
  Job& one = job_of(state_, id);
  if (!is_up(one.phase) || one.is_leaderless) return;
  one.is_leaderless = true;
  one.was_lost = true;
  one.seen_at = 0;
  actions_.emplace_back(note_of(one, "orphaned", "its launcher is lost; another of its hosts may go on"));
  wake(now);
}

void Dispatcher::moved(JobId id, const std::string& home, const std::vector<std::string>& names, double now) {
  account(state_, now);
  Job& one = job_of(state_, id);
  if (!is_up(one.phase)) return;
  one.home = home;
  one.is_leaderless = false;
  one.seen_at = 0;
  if (one.phase == Phase::stopping) underway_.asked_to_let_go.erase(id);  // the launcher that was asked is gone
  Target expected = held_by(state_, id);
  if (one.phase == Phase::changing) {  // the launcher that was asked may have done it, or not
    const Underway::Asked& asked = underway_.asked[id];
    expected = common_to(expected, common_to(asked.had, asked.then));
  }
  if (one.phase == Phase::stopping || one.phase == Phase::changing) one.phase = Phase::running;
  hold(state_, id, names);
  limit_to_held(state_, one, expected, now + settings_.growth_pause);
  actions_.emplace_back(note_of(one, "moved", "it is led from " + home));
  wake(now);
}

void Dispatcher::lose_host(const std::string& host, const std::string& why, double now) {
  account(state_, now);
  std::vector<JobId> alone, led;
  for (const auto& [id, job] : state_.jobs) {
    if (!is_up(job.phase) || job.home != host) continue;
    const bool is_elsewhere =
        std::ranges::any_of(slots_of(state_, id), [&](const Slot* slot) { return slot->host() != host; });
    (is_elsewhere ? led : alone).push_back(id);
  }
  std::vector<std::string> gone;
  for (const Slot& slot : state_.slots) {
    if (slot.host() == host && !slot.for_good) gone.push_back(slot.name);
  }
  std::erase_if(state_.slots, [&](const Slot& slot) { return slot.host() == host; });
  actions_.emplace_back(Note{0, "lost", std::ssize(gone), fmt::format("host {}: {}", host, why), gone});
  make_fit(state_);
  for (const JobId id : led) orphaned(id, now);
  for (const JobId id : alone) {
    state_.jobs[id].was_lost = true;
    ended(id, {Ended::How::stopped, fmt::format("host {} was lost", host)}, now);
  }
  wake(now);
}

void Dispatcher::found(JobId id, const Found& found, double now) {
  account(state_, now);
  Job& one = job_of(state_, id);
  const int64_t steps = found.step - one.step;  // since the last news
  one.step = std::max(one.step, found.step);
  actions_.emplace_back(note_of(one, "found", "it went on while the pool's daemon was away"));
  const bool trains = found.doing == Found::Doing::trains;
  const bool is_as_before = one.phase == Phase::running && trains && std::ssize(found.held) == held_in_all(state_, id);
  if (is_as_before && one.seen_at > 0) {
    see(state_, one, found.step, 0, now);
  } else {
    one.seen_at = 0;
  }
  const bool was_asked = one.phase == Phase::changing || one.phase == Phase::stopping;
  const bool is_at_it = one.phase == Phase::stopping ? found.doing == Found::Doing::ends : !trains;
  if (was_asked && is_at_it) {  // devices that the job is about to take stay its own
    if (one.phase == Phase::stopping || held_in_all(state_, id) > one.targeted()) underway_.asked_to_let_go[id] = now;
    return wake(now);
  }
  const Target had = held_by(state_, id);
  hold(state_, id, found.held);
  if (was_asked) {
    const bool is_done =
        one.phase == Phase::changing && one.batch.wanted == 0 && held_by(state_, id) == underway_.asked[id].then;
    one.phase = Phase::running;  // a lost request is made again
    if (is_done) {
      count_lost(state_, one, found.lost);
      actions_.emplace_back(changed_note(one, found.lost));
    }
  } else if (one.phase == Phase::starting && trains) {
    const double passed = see_first(state_, one, found.step, steps, found.step_seconds, now);
    actions_.emplace_back(begin_to_train(one, passed));
  } else if (one.phase == Phase::running) {
    limit_to_held(state_, one, had, now + settings_.growth_pause);
  }
  wake(now);
}

void Dispatcher::ended(JobId id, const Ended& ended, double now) {
  account(state_, now);
  Job& one = job_of(state_, id);
  const bool was_killed = underway_.killed.erase(id) > 0;
  see_last(state_, one, ended.how == Ended::How::done ? one.request.total_steps : ended.step, now);
  one.batch.wanted = 0;
  one.home.clear();
  one.is_leaderless = false;
  underway_.asked_to_let_go.erase(id);
  underway_.asked.erase(id);
  free_slots_of(state_, id);
  if (is_over(one.phase)) return wake(now);
  if (ended.how == Ended::How::done) {
    one.step = std::max(one.step, one.request.total_steps);
    actions_.emplace_back(finish(one, Phase::done, ended.reason, now));
  } else if (one.is_unwanted) {
    actions_.emplace_back(finish(one, Phase::cancelled, "cancelled", now));
  } else if (ended.how == Ended::How::failed) {
    actions_.emplace_back(finish(one, Phase::failed, ended.reason, now));
  } else {
    // The launcher of a lost host may still hold the run directory. As long as it does, the pool tries again.
    const bool waits = ended.how == Ended::How::never_began && one.was_lost;
    const bool is_fault = ended.how != Ended::How::stopped && !was_killed && !waits;
    one.failures = !is_fault ? one.failures : one.step > one.failed_at ? 1 : one.failures + 1;
    if (is_fault) one.failed_at = std::max(one.failed_at, one.step);
    if (one.failures > settings_.retries) {
      actions_.emplace_back(
          finish(one, Phase::failed, fmt::format("given up after {} tries: {}", one.failures, ended.reason), now));
      return wake(now);
    }
    one.phase = Phase::waiting;
    one.target.clear();
    one.owed = 0;
    one.reason = is_fault ? "is tried again: " + ended.reason : "stopped with a checkpoint, and waits";
    one.not_before = is_fault ? now + ended.back_off * std::exp2(static_cast<double>(one.failures - 1))
                     : waits  ? now + ended.back_off
                              : now;
    actions_.emplace_back(note_of(one, is_fault ? "faulted" : "stopped", ended.reason));
  }
  wake(now);
}

}  // namespace estrain::dispatch
