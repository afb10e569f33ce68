#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

constexpr double kOneMoment = 0.05;  // s: two looks within this time are the same look

// Where the job has fewer devices than expected, the job declined devices, was unable to take them, or lost them: the
// policy is told the truth, and offers the job no devices before that moment. A job with as many as expected did its
// part: the job was not yet asked to take the rest of its target. Returns whether the job has fewer.
bool limit_to_held(const State& state, Job& job, const Target& expected, double no_growth_before) {
  const Target has = held_by(state, job.id);
  const auto falls_short = [&](const auto& entry) {
    const auto at = has.find(entry.first);
    return std::min(entry.second, wanted(job, entry.first)) > (at == has.end() ? 0 : at->second);
  };
  if (std::ranges::none_of(expected, falls_short)) return false;
  job.no_growth_before = no_growth_before;
  for (auto& [group, count] : job.target) {
    const auto at = has.find(group);
    count = std::min(count, at == has.end() ? 0 : at->second);
  }
  std::erase_if(job.target, [](const auto& entry) { return entry.second == 0; });
  return true;
}

void count_lost(State& state, Job& job, double lost) {
  job.lost += lost;
  if (job.request.background) return;
  if (lost > 0) state.charge = state.charge > 0 ? 0.7 * state.charge + 0.3 * lost : lost;
}

WriteHistory changed_note(const Job& job, double lost) { return note_of(job, "changed", Counted::stood_still, lost); }

// Notes that a starting job runs now. `earlier`: the job has already trained for so many seconds; 0: not known.
WriteHistory begin_to_train(Job& job, double earlier = 0) {
  job.phase = Phase::running;
  job.was_lost = false;
  if (earlier <= 0) return note_of(job, "trains", "its first step has begun");
  return note_of(job, "trains", Counted::began_earlier, earlier);
}

// A daemon that could not save the state has started the job, with devices that the job holds by now.
void begin_unsaved(const State& state, Job& job, const FoundAtWork& event) {
  job.phase = Phase::starting;
  job.home = event.home;
  job.target = held_by(state, job.id);
  if (!job.started) job.started = state.seen;
  ++job.starts;
}

// Begins to count the job's steps, from this moment, with the present devices, at this step.
void begin_to_watch(const State& state, Job& job, int64_t step, double now) {
  job.seen_at = 0;
  if (teaches_nothing(state, job)) return;
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

// Counts the job's first steps, made before the first look: `steps` up to `step`, each of so many seconds. Returns the
// s that these steps took; 0: not known.
double see_first(DispatchTurn& turn, Job& job, int64_t step, int64_t steps, double step_seconds) {
  State& state = turn.state;
  const double now = turn.now;
  const std::vector<Slot*> slots = slots_of(state, job.id);
  if (slots.empty() || steps <= 0 || !(step_seconds > 0) || teaches_nothing(state, job)) return 0;
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

// `estrain check` refused the job.
Ended refusal(const std::string& reason) {
  return {.how = Ended::How::failed,
          .reason = "check: " + reason,
          .cause = std::string(kCheckCause),
          .fault_class = "user"};
}

// Of the fault table (core/run/faults).
constexpr std::string_view kMemoryCause = "cpu_out_of_memory", kGpuMemoryCause = "gpu_out_of_memory";

Target common_to(const Target& one, const Target& other) {
  Target both;
  for (const auto& [group, count] : one) {
    const auto at = other.find(group);
    if (const int64_t least = at == other.end() ? 0 : std::min(count, at->second); least > 0) both[group] = least;
  }
  return both;
}

}  // namespace

void on(DispatchTurn& turn, const TakenUp&) {
  State& state = turn.state;
  turn.policy = scheduling::make_policy_for_real_jobs(state.policy, state.seed);
  state.underway = {};
  for (auto& [id, job] : state.jobs) {
    if (job.phase == Phase::changing) state.underway.asked[id] = {{}, common_to(held_by(state, id), job.target)};
    if (job.phase == Phase::checking) {
      job.reason = kToBeChecked;
      turn.act(CheckJob{id});
    }
    if (job.seen_at > 0) go_on_watching(state, job, state.seen);
  }
}

void on(DispatchTurn& turn, const Checked& event) {
  State& state = turn.state;
  Job& one = job_of(state, event.job);
  if (one.phase != Phase::checking) return wake(turn, one);  // cancelled meanwhile
  if (!event.fine) {
    finish(turn, one, Phase::failed, refusal(event.reason), 0);
    return wake(turn, one);
  }
  one.phase = Phase::waiting;
  one.reason = "waits for devices";
  if (event.total_steps > 0) one.request.total_steps = event.total_steps;
  if (one.request.batch) one.batch.own_steps = event.total_steps;
  if (event.mini_batch_seconds > 0) one.speeds.expect(event.mini_batch_seconds);
  for (const auto& [type, seconds] : event.mini_batches) one.speeds.expect_on(type, seconds);
  one.work = event.work;
  one.gradient_bytes = event.gradient_bytes;
  estimate_memory(state, one, event);
  turn.act(note_of(one, "admitted", "check found nothing"));
  wake(turn, one);
}

void on(DispatchTurn& turn, const TrainingBegan& event) {
  State& state = turn.state;
  const double now = turn.now;
  account(state, now);
  Job& one = job_of(state, event.job);
  if (one.phase == Phase::starting) {
    turn.act(begin_to_train(one));
    begin_to_watch(state, one, one.step, now);  // steps already made count from here on, too
  }
  go_on(turn);
}

void on(DispatchTurn& turn, const Progressed& event) {
  State& state = turn.state;
  const double now = turn.now;
  Job& one = job_of(state, event.job);
  if (is_over(one.phase)) return;
  one.step = std::max(one.step, event.step);
  if (event.total_steps > 0) one.request.total_steps = event.total_steps;
  learn_memory(state, one, event);
  if (one.request.background) return;
  const std::vector<Slot*> slots = slots_of(state, event.job);
  const bool settled = one.phase == Phase::running && !slots.empty() && event.devices == std::ssize(slots);
  DeviceSet devices;
  std::set<std::string> hosts;
  for (const Slot* slot : slots) {
    ++devices[slot->type()];
    hosts.insert(slot->host());
  }
  if (settled && look_beside_guests(turn, one, event)) {
    one.seen_at = 0;
    return;
  }
  if (settled) {
    for (const auto& [type, seconds] : event.mini_batches) one.speeds.observe_mini_batch(type, seconds);
    one.speeds.observe(JobSpeeds::key_of(devices, std::ssize(hosts)), event.step_seconds);
  }
  if (!settled || devices.size() > 1) {
    if (one.phase == Phase::running) one.seen_at = 0;  // while the job changes or stops, seen_at stays
    return;
  }
  if (one.request.batch && event.devices_at_work > 0) {
    const int64_t turns = most_ests(one.request.ests, event.devices_at_work);
    one.batch_times.observe(one.batch_in_force(), event.step_seconds / static_cast<double>(turns));
  }
  account(state, now);
  if (one.seen_at == 0 || event.step > one.seen_step) see(state, one, event.step, event.step_seconds, now);
}

void on(DispatchTurn& turn, const DevicesChanged& event) {
  State& state = turn.state;
  const double now = turn.now;
  const JobId id = event.job;
  account(state, now);
  Job& one = job_of(state, id);
  if (!is_up(one.phase)) return;
  see_last(state, one, event.step, now);
  const Target given = held_by(state, id);
  hold(state, id, event.held);
  count_lost(state, one, event.lost);
  one.company = {.shared_step = one.company.shared_step};
  if (one.phase != Phase::changing) {
    if (one.phase == Phase::running) limit_to_held(state, one, given, now + turn.settings.growth_pause);
    return go_on(turn);
  }
  one.phase = Phase::running;
  if (event.step > 0) begin_to_watch(state, one, event.step, now);
  state.underway.asked_to_let_go.erase(id);
  const Underway::DevicesAsked& asked = state.underway.asked[id];
  const bool is_as_before = one.target == asked.then && held_by(state, id) == asked.had;
  const bool has_fewer = limit_to_held(state, one, asked.then, now + turn.settings.growth_pause);
  // A job that declined an exchange keeps all of its devices.
  if (has_fewer && is_as_before) one.target = asked.had;
  const bool was_asked_for_devices = std::exchange(one.batch.wanted, 0) == 0;
  if (was_asked_for_devices) turn.act(changed_note(one, event.lost));
  wake(turn, one);
}

void on(DispatchTurn& turn, const JobEnded& event) {
  State& state = turn.state;
  const double now = turn.now;
  const JobId id = event.job;
  const Ended& end = event.end;
  account(state, now);
  Job& one = job_of(state, id);
  const bool was_killed = state.underway.killed.erase(id) > 0;
  // A job that is done has made all of its steps, unless its end tells a step: an early stop.
  const bool is_whole = end.how == Ended::How::done && end.step == 0;
  see_last(state, one, is_whole ? one.request.total_steps : end.step, now);
  one.batch.wanted = 0;
  one.company = {};
  one.home.clear();
  one.is_leaderless = false;
  state.underway.asked_to_let_go.erase(id);
  state.underway.asked.erase(id);
  const int64_t devices = held_in_all(state, id);
  const Target had = held_by(state, id);
  free_slots_of(state, id);
  one.beside = 0;
  if (is_over(one.phase)) return wake(turn, one);
  if (end.how == Ended::How::done) {
    if (one.request.early_stop) state.underway.ends_are_stale = true;
    finish(turn, one, Phase::done, end, devices);
  } else if (one.is_unwanted) {
    finish(turn, one, Phase::cancelled, {.how = end.how, .reason = "cancelled"}, devices);
  } else if (end.how == Ended::How::failed && (end.cause != kGpuMemoryCause || !raise_gpu_needs(turn, one, had))) {
    finish(turn, one, Phase::failed, end, devices);
  } else {
    // The launcher of a lost host may still hold the run directory. As long as it does, the pool tries again.
    const bool waits = end.how == Ended::How::never_began && one.was_lost;
    const bool is_fault = end.how != Ended::How::stopped && !was_killed && !waits;
    one.failures = !is_fault ? one.failures : one.step > one.failed_at ? 1 : one.failures + 1;
    if (is_fault) one.failed_at = std::max(one.failed_at, one.step);
    if (one.failures > turn.settings.retries) {
      Ended last = end;
      last.reason = fmt::format("given up after {} tries: {}", one.failures, end.reason);
      finish(turn, one, Phase::failed, last, devices);
      return wake(turn, one);
    }
    if (end.cause == kMemoryCause) double_memory(turn, one);
    one.phase = Phase::waiting;
    one.target.clear();
    one.owed = 0;
    one.reason = is_fault ? "is tried again: " + end.reason : "stopped with a checkpoint, and waits";
    one.not_before = is_fault ? now + end.back_off * std::exp2(static_cast<double>(one.failures - 1))
                     : waits  ? now + end.back_off
                              : now;
    turn.act(note_of(one, is_fault ? "faulted" : "stopped", end.reason));
    if (is_fault || (!end.cause.empty() && !was_killed && !waits)) keep_end(turn, one, Outcome::retried, end, devices);
  }
  wake(turn, one);
}

void on(DispatchTurn& turn, const FoundAtWork& event) {
  State& state = turn.state;
  const double now = turn.now;
  const JobId id = event.job;
  account(state, now);
  Job& one = job_of(state, id);
  const int64_t steps = event.step - one.step;  // since the last news
  one.step = std::max(one.step, event.step);
  turn.act(note_of(one, "found", "the job continued while the pool's daemon was away"));
  const bool trains = event.doing == FoundAtWork::Doing::trains;
  const bool is_as_before = one.phase == Phase::running && trains && std::ssize(event.held) == held_in_all(state, id);
  if (is_as_before && one.seen_at > 0) {
    see(state, one, event.step, 0, now);
  } else {
    one.seen_at = 0;
  }
  const bool was_asked = one.phase == Phase::changing || one.phase == Phase::stopping;
  const bool is_at_it = one.phase == Phase::stopping ? event.doing == FoundAtWork::Doing::ends : !trains;
  if (was_asked && is_at_it) {  // devices that the job is about to take stay its own
    if (one.phase == Phase::stopping) state.underway.asked_to_let_go[id] = now;
    return wake(turn, one);
  }
  const Target had = held_by(state, id);
  hold(state, id, event.held);
  if (!is_up(one.phase)) begin_unsaved(state, one, event);
  if (was_asked) {
    const bool is_done =
        one.phase == Phase::changing && one.batch.wanted == 0 && held_by(state, id) == state.underway.asked[id].then;
    one.phase = Phase::running;  // a lost request is made again
    if (is_done) {
      count_lost(state, one, event.lost);
      turn.act(changed_note(one, event.lost));
    }
  } else if (one.phase == Phase::starting && trains) {
    const double passed = see_first(turn, one, event.step, steps, event.step_seconds);
    turn.act(begin_to_train(one, passed));
  } else if (one.phase == Phase::running) {
    limit_to_held(state, one, had, now + turn.settings.growth_pause);
  }
  wake(turn, one);
}

void on(DispatchTurn& turn, const Orphaned& event) {
  State& state = turn.state;
  Job& one = job_of(state, event.job);
  if (!is_up(one.phase) || one.is_leaderless) return;
  one.is_leaderless = true;
  one.was_lost = true;
  one.seen_at = 0;
  turn.act(note_of(one, "orphaned", "the launcher is lost; another host of the job may lead the job"));
  wake(turn, one);
}

void on(DispatchTurn& turn, const Moved& event) {
  State& state = turn.state;
  const double now = turn.now;
  const JobId id = event.job;
  account(state, now);
  Job& one = job_of(state, id);
  if (!is_up(one.phase)) return;
  one.home = event.home;
  one.is_leaderless = false;
  one.company = {};
  one.seen_at = 0;
  state.underway.asked_to_let_go.erase(id);  // the launcher that was asked is gone
  Target expected = held_by(state, id);
  if (one.phase == Phase::changing) {  // the launcher that was asked may have done it, or not
    const Underway::DevicesAsked& asked = state.underway.asked[id];
    expected = common_to(expected, common_to(asked.had, asked.then));
  }
  if (one.phase == Phase::stopping || one.phase == Phase::changing) one.phase = Phase::running;
  hold(state, id, event.held);
  limit_to_held(state, one, expected, now + turn.settings.growth_pause);
  turn.act(note_of(one, "moved", "it is led from " + event.home));
  wake(turn, one);
}

void on(DispatchTurn& turn, const CoresKnown& event) {
  State& state = turn.state;
  state.cores[event.host] = event.cores;
}

void on(DispatchTurn& turn, const RackKnown& event) {
  State& state = turn.state;
  if (event.rack.empty()) {
    state.racks.erase(event.host);
  } else {
    state.racks[event.host] = event.rack;
  }
}

void on(DispatchTurn& turn, const HostLinkMeasured& event) {
  if (event.bytes_per_second > 0 && event.round_trip_seconds >= 0)
    turn.state.links[event.host] = {event.bytes_per_second, event.round_trip_seconds};
}

void on(DispatchTurn& turn, const HostVanished& event) {
  State& state = turn.state;
  const double now = turn.now;
  const std::string& host = event.host;
  account(state, now);
  std::vector<JobId> alone, led;
  for (const auto& [id, job] : state.jobs) {
    if (!is_up(job.phase) || job.home != host) continue;
    const bool is_elsewhere =
        std::ranges::any_of(slots_of(state, id), [&](const Slot* slot) { return slot->host() != host; });
    (is_elsewhere ? led : alone).push_back(id);
  }
  std::vector<std::string> gone;
  for (const Slot& slot : state.slots) {
    if (slot.host() == host && !slot.for_good) gone.push_back(slot.name);
  }
  std::erase_if(state.slots, [&](const Slot& slot) { return slot.host() == host; });
  turn.act(WriteHistory{0, "lost", std::ssize(gone), fmt::format("host {}: {}", host, event.why), gone});
  make_fit(state);
  for (const JobId id : led) on(turn, Orphaned{id});
  for (const JobId id : alone) {
    state.jobs[id].was_lost = true;
    on(turn, JobEnded{id, host_lost(fmt::format("host {} was lost", host))});
  }
  wake(turn);
}

}  // namespace estrain::dispatch
