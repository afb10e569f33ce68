#include "core/run/decisions/state/state.h"

#include <algorithm>

namespace estrain::decisions {

Assignment devices_in_force(const RunState& state) {
  Assignment devices;
  for (const Member& member : state.workers) devices.push_back({member.device, member.ests.size()});
  return devices;
}

bool exchange_between_gpus(const RunState& state, const Devices& devices) {
  return state.gpus_exchange && devices.size() > 1 && are_distinct_gpus_of(state.host, devices);
}

std::vector<const Member*> all_members(const RunState& state) {
  std::vector<const Member*> all;
  const auto add = [&](const std::vector<Member>& list) {
    for (const Member& member : list) {
      if (member.id != kNobody) all.push_back(&member);
    }
  };
  add(state.workers);
  add(state.leaving);
  if (state.pending) add(state.pending->added);
  return all;
}

const Member* find_member(const RunState& state, WorkerId id) {
  if (id == kNobody) return nullptr;
  for (const std::vector<Member>* list :
       {&state.workers, &state.leaving, state.pending ? &state.pending->added : nullptr}) {
    if (list == nullptr) continue;
    if (const size_t at = index_of(*list, id); at < list->size()) return &(*list)[at];
  }
  return nullptr;
}

size_t index_of(const std::vector<Member>& list, WorkerId id) {
  if (list.empty()) return 0;
  const int64_t expected = std::clamp<int64_t>(id.value - list.front().id.value, 0, std::ssize(list) - 1);
  for (auto i = static_cast<size_t>(expected) + 1; i-- > 0;) {
    if (list[i].id == id) return i;
  }
  const auto at = std::find_if(list.begin() + expected, list.end(), [id](const Member& each) { return each.id == id; });
  return static_cast<size_t>(at - list.begin());
}

bool is_leaving(const RunState& state, WorkerId id) {
  return std::ranges::find(state.leaving, id, &Member::id) != state.leaving.end();
}

bool all_left(const RunState& state) {
  const size_t workers = state.workers.size();
  for (size_t looked = 0; looked < workers; ++looked) {
    if (state.in_loop >= workers) state.in_loop = 0;
    if (!state.workers[state.in_loop].left) return false;
    ++state.in_loop;
  }
  return true;
}

bool is_settled(const RunState& state) {
  return state.phase == RunPhase::training && !state.resize && state.ending == RunEnding::none;
}

std::optional<Error> why_not_now(const RunState& state, const Moment& now) {
  if (state.ending != RunEnding::none || state.phase == RunPhase::over) return Error(Fault::usage, "the job is ending");
  if (state.phase == RunPhase::starting)
    return Error(Fault::usage, "the job is still starting").advise("try again in a moment");
  if (state.phase == RunPhase::recovering)
    return Error(Fault::usage, "the job is recovering from a fault").advise("try again in a moment");
  if (!now.no_room.empty())
    return Error(Fault::io, "the job waits for room on the disk: " + now.no_room).advise("make room and try again");
  if (!is_settled(state)) return Error(Fault::usage, "another resize is under way").advise("try again when it is done");
  return std::nullopt;
}

int64_t newest_saved(const RunState& state) { return std::max(state.scribe.last_saved_step, state.from_step); }

RunState after_handover(const RunState& state) {
  RunState next;
  next.ests = state.ests;
  next.retries = state.retries;
  next.host = state.host;
  next.gpus_exchange = state.gpus_exchange;
  next.from_step = state.from_step;
  next.phase = RunPhase::training;
  next.stage = state.stage;
  next.workers = state.workers;
  next.leaving = state.leaving;
  for (std::vector<Member>* list : {&next.workers, &next.leaving}) {
    for (Member& member : *list) {
      member.ready = true;
      member.left = false;
    }
  }
  for (size_t rank = 0; rank < next.workers.size(); ++rank) next.workers[rank].rank = static_cast<int64_t>(rank);
  next.workers_started = state.workers_started;
  next.exchanges_asked = state.exchanges_asked;
  next.scribe.last_saved_step = state.scribe.last_saved_step;
  next.held = state.held;
  next.resize = state.resize;
  next.waiting = state.waiting;
  next.recovery = state.recovery;
  next.fault_step = state.fault_step;
  next.faults_at_step = state.faults_at_step;
  next.less_memory = state.less_memory;
  next.faults = state.faults;
  next.grace_seconds = state.grace_seconds;
  return next;
}

}  // namespace estrain::decisions
