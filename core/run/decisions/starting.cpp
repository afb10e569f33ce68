// Up to the first stage: every place of the first workers is filled.

#include <algorithm>

#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

Member* member_of(RunState& state, WorkerId id) {
  return const_cast<Member*>(find_member(state, id));  // the state is ours to change
}

void begin_if_ready(Turn& turn) {
  RunState& state = turn.state;
  if (!std::ranges::all_of(state.workers, &Member::ready)) return;
  state.phase = RunPhase::training;
  turn.act(BeginTraining{}, "all first workers are ready");
  turn.act(OpenStage{}, "the first stage");
  for (size_t rank = 0; rank < state.workers.size(); ++rank) state.workers[rank].rank = static_cast<int64_t>(rank);
}

Assignment share_evenly(RunState& state) {
  Assignment assignment = placement::evenly(placement::devices_of(devices_in_force(state)));
  const std::vector<EstRange> ranges = place_ests(assignment, state.ests);
  for (size_t i = 0; i < ranges.size(); ++i) state.workers[i].ests = ranges[i];
  return assignment;
}

}  // namespace

void on_ready(Turn& turn, const WorkerReady& event) {
  RunState& state = turn.state;
  Member* member = member_of(state, event.worker);
  if (member == nullptr || state.phase == RunPhase::over) return;
  member->ready = true;
  if (state.phase == RunPhase::starting) {
    begin_if_ready(turn);
  } else if (state.phase == RunPhase::warming) {
    added_workers_ready(turn);
  } else if (state.phase == RunPhase::recovering) {
    change_if_ready(turn);
  }
}

// Gives up a suspect device, unless the device's worker is the first, which may have to build the state. After all
// other losses the same worker starts again, in the same place.
void recover_start(Turn& turn, const LostWorker& loss, const FaultVerdict& verdict) {
  RunState& state = turn.state;
  state.less_memory |= verdict.less_memory;
  const auto lost = std::ranges::find(state.workers, loss.worker, &Member::id);
  const Devices devices = placement::devices_of(devices_in_force(state));
  if (verdict.other_device && lost != state.workers.begin() && can_do_without(state, devices, loss.device)) {
    state.workers.erase(lost);
    give_up_device(turn, loss, share_evenly(state));
    return begin_if_ready(turn);
  }
  *lost = Member{.device = loss.device, .ests = loss.ests};
  state.start_missing_at = turn.now.time + back_off(verdict.backoff_seconds, state.faults_at_step);
}

void start_first_workers(Turn& turn) {
  RunState& state = turn.state;
  state.start_missing_at = kNoTime;
  StartWorkers start;
  for (Member& place : state.workers) {
    if (place.id != kNobody) continue;
    place.id = WorkerId(state.workers_started++);
    start.workers.push_back({place.id, place.device, &place == &state.workers.front()});
  }
  turn.act(std::move(start), "places of the first stage wait for their workers");
}

}  // namespace estrain::decisions
