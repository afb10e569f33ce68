// Changes the workers, their shares or the batch. New workers start and warm up while the old ones train. Then all
// leave their loop after an agreed step and get new ranges. If a new worker does not start, devices and shares stay.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "core/base/clock.h"
#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

constexpr Nanoseconds kLeave = 300ms;  // for a worker to end after the order to leave
constexpr Nanoseconds kPrepare = 60s;  // for the GPUs of the next stage to meet, besides which the job trains

std::vector<const Member*> pool_of(const RunState& state) {
  std::vector<const Member*> pool;
  for (const Member& member : state.workers) pool.push_back(&member);
  for (const Member& member : state.pending->added) pool.push_back(&member);
  return pool;
}

constexpr size_t kNone = SIZE_MAX;

// Takes members of a pool, each once.
class Pool {
 public:
  explicit Pool(const std::vector<const Member*>& members) : members_(members), taken_(members.size()) {
    for (size_t i = 0; i < members.size(); ++i) {
      by_id_.try_emplace(members[i]->id, i);
      by_device_[members[i]->device].push_back(i);
    }
    for (auto& [device, waiting] : by_device_) std::ranges::reverse(waiting);
  }

  // kNone: the worker is not in the pool, or on another device.
  size_t take(WorkerId id, const Device& device) {
    const auto at = by_id_.find(id);
    if (at == by_id_.end() || taken_[at->second] || members_[at->second]->device != device) return kNone;
    return take(at->second);
  }
  // The first member on the device that has not been taken.
  size_t take(const Device& device) {
    const auto at = by_device_.find(device);
    if (at == by_device_.end()) return kNone;
    std::vector<size_t>& waiting = at->second;
    while (!waiting.empty() && taken_[waiting.back()]) waiting.pop_back();
    return waiting.empty() ? kNone : take(waiting.back());
  }

 private:
  size_t take(size_t i) {
    taken_[i] = true;
    return i;
  }

  const std::vector<const Member*>& members_;
  std::vector<bool> taken_;
  std::map<WorkerId, size_t> by_id_;
  std::map<Device, std::vector<size_t>> by_device_;  // the first member last
};

// Returns for each device of the pending change the index of a member of the pool, or kNone for a device that needs a
// new member. The requested member is taken if the pool has it, else the member with the longest service.
std::vector<size_t> match_devices(const RunState& state) {
  const std::vector<const Member*> members = pool_of(state);
  const Assignment& wanted = state.pending->devices;
  const std::vector<WorkerId>& ids = state.pending->workers;
  Pool pool(members);
  std::vector<size_t> matched(wanted.size(), kNone);
  for (size_t i = 0; i < ids.size(); ++i) matched[i] = pool.take(ids[i], wanted[i].device);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (matched[i] == kNone) matched[i] = pool.take(wanted[i].device);
  }
  return matched;
}

// Returns the workers of the next stage in rank order, if they pass data between GPUs, one for each.
std::vector<WorkerId> exchanging_workers(const RunState& state) {
  if (!exchange_between_gpus(state, devices_of(state.pending->devices))) return {};
  const std::vector<const Member*> pool = pool_of(state);
  std::vector<WorkerId> workers;
  for (const size_t match : match_devices(state)) {
    if (match == kNone) return {};
    workers.push_back(pool[match]->id);
  }
  return workers;
}

// Asks the workers of the next stage to prepare their exchange, while the stage goes on. Returns false if there is
// nothing to prepare, or no time: devices are to be given back.
bool prepare_exchange(Turn& turn) {
  RunState& state = turn.state;
  std::vector<WorkerId> workers = exchanging_workers(state);
  if (workers.empty() || state.pending->give_back_by) return false;
  state.pending->exchange = {++state.exchanges_asked, workers, workers, turn.now.time + kPrepare};
  turn.act(PrepareExchange{state.exchanges_asked, std::move(workers)}, "the GPUs of the next stage can meet before it");
  return true;
}

ResizeUnderWay account_for(const Turn& turn, const PendingChange& change) {
  ResizeUnderWay under_way;
  under_way.client = change.client;
  under_way.answer = change.answer;
  under_way.why = change.why;
  under_way.gives_back = change.give_back_by.has_value();
  under_way.keeps_devices = change.keeps_devices;
  under_way.changes_batch = change.batch.has_value();
  under_way.before = change.before;
  under_way.after = format_devices(change.devices);
  under_way.step = turn.now.trained;
  under_way.requested = change.requested;
  under_way.warmed = change.warmed > kNoTime ? change.warmed : turn.now.time;
  // After a fault in between, the time begins when the fault was noticed.
  const bool recovers = turn.state.phase == RunPhase::recovering;
  under_way.stopped = recovers ? turn.state.stood_still : turn.now.stopped;
  under_way.step_seconds_before = change.step_seconds_before;
  const int64_t warming_steps = under_way.step.value - change.requested_step.value;
  if (warming_steps > 0)
    under_way.step_seconds_warming =
        seconds(under_way.stopped - change.requested).count() / static_cast<double>(warming_steps);
  return under_way;
}

// Gives ranges and ranks to the members of the next stage; members without a share leave.
void hand_out_ranges(RunState& state, const PendingChange& change, const std::vector<size_t>& matched) {
  const std::vector<EstRange> ranges = place_ests(change.devices, state.ests);
  std::vector<Member> pool = std::move(state.workers);
  pool.insert(pool.end(), change.added.begin(), change.added.end());
  std::vector<bool> stays(pool.size(), false);
  state.workers.clear();
  for (const size_t match : matched) {
    const auto rank = static_cast<int64_t>(state.workers.size());
    stays[match] = true;
    Member member = pool[match];
    member.device = change.devices[static_cast<size_t>(rank)].device;
    member.ests = ranges[static_cast<size_t>(rank)];
    member.left = false;
    member.rank = rank;
    state.workers.push_back(std::move(member));
  }
  for (size_t i = 0; i < pool.size(); ++i) {
    if (!stays[i]) state.leaving.push_back(std::move(pool[i]));
  }
}

// Returns the ticket of the exchange that the workers of the new stage have prepared; 0: none.
int64_t exchange_of(const RunState& state, const PendingChange& change) {
  if (!change.exchange.is_made()) return 0;
  return std::ranges::equal(state.workers, change.exchange.workers, {}, &Member::id) ? change.exchange.ticket : 0;
}

bool is_ready_to_change(const RunState& state) {
  if (state.phase != RunPhase::pausing && state.phase != RunPhase::recovering) return false;
  if (!state.pending || state.start_missing_at != kNoTime) return false;
  if (!all_left(state) || misses_workers(state)) return false;
  if (!std::ranges::all_of(state.pending->added, &Member::ready)) return false;
  return state.scribe.here || !state.pending->asked_for;  // the launcher's next self takes over a scribe, too
}

// Assigns new ranges, with all workers out of their loop. If a user or the planner asked for other devices, the
// launcher then re-execs itself.
void change_workers(Turn& turn) {
  RunState& state = turn.state;
  const std::vector<size_t> matched = match_devices(state);
  std::optional<ResizeUnderWay> under_way;
  if (state.pending->asked_for) under_way = account_for(turn, *state.pending);
  PendingChange change = std::move(*state.pending);
  state.pending.reset();
  hand_out_ranges(state, change, matched);
  state.stage += 1;
  state.phase = RunPhase::training;
  turn.act(OpenStage{true, exchange_of(state, change)},
           change.why.empty() ? "the lost worker is replaced" : change.why);
  if (!change.keeps_devices || change.batch)
    turn.act(TellSave{turn.now.trained},
             change.batch ? "the state at a change of the batch" : "the state at a change of workers");
  for (const Member& member : state.leaving) turn.act(TellLeave{member.id}, "it has no share any more");
  if (!under_way) return turn.act(ReleaseSlots{});
  state.held = std::move(change.held);
  state.resize = std::move(under_way);
  turn.act(AdoptPlan{change.estimated_step_seconds, std::move(change.plan_reason)});
  if (!change.keeps_devices) turn.act(HandOver{}, "the devices have changed");
}

// Resumes the workers that left their loop for a change given up meanwhile, with unchanged shares.
void begin_anew(Turn& turn) {
  turn.state.phase = RunPhase::training;
  for (Member& worker : turn.state.workers) worker.left = false;
  turn.act(OpenStage{}, "the change was given up, and the workers have left their loop for it");
}

// Kills workers that were told to leave and have not ended in a moment.
void hurry_leaving(Turn& turn) {
  if (turn.now.time - turn.now.stage_started_at < kLeave) return;
  for (const Member& member : turn.state.leaving)
    turn.act(KillWorker{member.id, false}, "the worker's device is wanted elsewhere, and the worker does not leave");
}

}  // namespace

bool misses_workers(const RunState& state) { return std::ranges::count(match_devices(state), kNone) > 0; }

std::vector<WorkerId> unneeded_workers(const RunState& state) {
  const std::vector<size_t> matched = match_devices(state);
  const std::set<size_t> needed(matched.begin(), matched.end());
  std::vector<WorkerId> unneeded;
  for (size_t i = 0; i < state.workers.size(); ++i) {
    if (!needed.contains(i)) unneeded.push_back(state.workers[i].id);
  }
  return unneeded;
}

void on_left(Turn& turn, const WorkerLeft& event) {
  RunState& state = turn.state;
  const size_t member = index_of(state.workers, event.worker);
  if (member == state.workers.size() || state.phase == RunPhase::over) return;
  state.workers[member].left = true;
  if (state.phase == RunPhase::recovering) return change_if_ready(turn);
  if (event.finished && state.ending == RunEnding::none) state.ending = RunEnding::finished;
  if (!all_left(state)) return;
  if (state.ending != RunEnding::none) {
    state.phase = RunPhase::over;
  } else if (state.pending) {
    change_if_ready(turn);
  } else {
    begin_anew(turn);
  }
}

void on_change_asked(Turn& turn, const ChangeAsked& event) {
  if (!is_settled(turn.state)) {
    const Error no = why_not_now(turn.state, turn.now).value_or(Error(Fault::usage, "the job is busy"));
    if (event.change.client) turn.act(Refuse{*event.change.client, no}, no.message());
    return;
  }
  begin_change(turn, event.change, event.requested.value_or(turn.now.time));
}

void ask_for(Turn& turn, PendingChange change, MonotonicTime requested) {
  change.asked_for = true;
  change.before = format_devices(devices_in_force(turn.state));
  change.requested = requested;
  change.requested_step = turn.now.trained;
  change.step_seconds_before = turn.now.step_seconds;
  turn.state.pending = std::move(change);
}

void begin_change(Turn& turn, PendingChange change, MonotonicTime requested) {
  ask_for(turn, std::move(change), requested);
  turn.state.phase = RunPhase::warming;
  start_missing_workers(turn);
  if (turn.state.pending->added.empty()) added_workers_ready(turn);
}

void start_missing_workers(Turn& turn) {
  RunState& state = turn.state;
  state.start_missing_at = kNoTime;
  const std::vector<size_t> matched = match_devices(state);
  StartWorkers start;
  for (size_t i = 0; i < matched.size(); ++i) {
    if (matched[i] != kNone) continue;
    start.workers.push_back({WorkerId(state.workers_started++), state.pending->devices[i].device});
  }
  for (const WorkerOrder& order : start.workers)
    state.pending->added.push_back(Member{.id = order.id, .device = order.device});
  if (!start.workers.empty()) turn.act(std::move(start), "devices that no worker serves");
}

void added_workers_ready(Turn& turn) {
  PendingChange& pending = *turn.state.pending;
  if (pending.exchange.ticket != 0 || !std::ranges::all_of(pending.added, &Member::ready)) return;
  pending.warmed = turn.now.time;
  if (!prepare_exchange(turn)) pause_stage(turn, "all that the change needs are ready");
}

void on_exchange_prepared(Turn& turn, const ExchangePrepared& event) {
  RunState& state = turn.state;
  if (state.phase != RunPhase::warming || !state.pending || state.pending->exchange.ticket != event.ticket) return;
  NextExchange& exchange = state.pending->exchange;
  std::erase(exchange.missing, event.worker);
  if (!event.made) {
    give_up_exchange(turn);
    return pause_stage(turn, "all that the change needs are ready; the GPUs meet in the pause");
  }
  if (exchange.is_made()) pause_stage(turn, "all that the change needs are ready, and the GPUs have met");
}

void watch_exchange(Turn& turn) {
  RunState& state = turn.state;
  if (state.phase != RunPhase::warming || !state.pending) return;
  const NextExchange& exchange = state.pending->exchange;
  if (exchange.ticket == 0 || turn.now.time <= exchange.until) return;
  give_up_exchange(turn);
  pause_stage(turn, "the GPUs of the next stage have not met in a minute: they meet in the pause");
}

void give_up_exchange(Turn& turn) {
  if (!turn.state.pending || turn.state.pending->exchange.ticket == 0) return;
  turn.state.pending->exchange = {};
  turn.act(GiveUpExchange{}, "the next stage does not use the exchange that was prepared");
}

// Gives up the change; the job keeps its devices.
void give_up_change(Turn& turn, const Error& error) {
  RunState& state = turn.state;
  give_up_exchange(turn);
  PendingChange given_up = std::move(*state.pending);
  state.pending.reset();
  for (Member& member : given_up.added) {
    turn.act(KillWorker{member.id}, "the change that it was started for is given up");
    state.leaving.push_back(std::move(member));
  }
  if (!given_up.asked_for) return;
  const std::string devices = format_devices(given_up.devices);
  if (!given_up.batch)
    turn.log("resize_failed", {{"step", turn.now.trained.value}, {"devices", devices}, {"error", error.message()}});
  const std::string what = given_up.batch ? "change of the batch" : "resize to " + devices;
  const Error told = error.within(what + " given up, the job continues as before");
  if (state.ending == RunEnding::none) turn.say("warning: " + told.message());
  if (given_up.client) turn.act(Refuse{*given_up.client, told}, error.message());
  if (state.phase == RunPhase::warming) state.phase = RunPhase::training;
  if (state.phase == RunPhase::pausing && all_left(state) && state.ending == RunEnding::none) begin_anew(turn);
}

// Begins the change once no worker is in its loop, every needed worker is ready, and the scribe can take the committed
// copy. Where only shares move, no checkpoint is saved, so the state is not held.
void change_if_ready(Turn& turn) {
  if (!is_ready_to_change(turn.state)) return;
  const PendingChange& pending = *turn.state.pending;
  turn.act(CloseStage{turn.state.phase == RunPhase::recovering, !pending.keeps_devices || pending.batch, pending.batch},
           "no worker is in its loop, and all needed workers are ready");
}

void on_stage_closed(Turn& turn, const StageClosed& event) {
  if (turn.state.recovery) turn.state.recovery->steps_redone += event.steps_redone;
  if (!event.held || !is_ready_to_change(turn.state)) return;
  if (event.batch) turn.state.pending->answer = event.batch;
  change_workers(turn);
}

void watch_resize(Turn& turn) {
  RunState& state = turn.state;
  if (turn.now.stage_started < static_cast<int64_t>(state.workers.size())) return;
  if (state.resize->gives_back && !state.leaving.empty()) return hurry_leaving(turn);  // a client waits for the devices
  turn.act(ReportResize{*std::exchange(state.resize, std::nullopt)}, "the first step after the change has begun");
}

}  // namespace estrain::decisions
