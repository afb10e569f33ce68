// No worker makes progress: a worker hangs, or all wait for each other.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/run/decisions/turn.h"

namespace estrain::decisions {

void on_hangs(Turn& turn, const WorkerHangs& event) {
  if (turn.state.phase == RunPhase::over || find_member(turn.state, event.worker) == nullptr) return;
  turn.act(EndHungWorker{event.worker, event.how}, event.how);
}

// A worker was stopped while waiting: the only worker still in its loop now. A second stall before the run makes
// progress is no accident.
void on_all_wait(Turn& turn, const AllWait& event) {
  RunState& state = turn.state;
  if (state.phase == RunPhase::over || state.workers.empty()) return;
  if (state.ending == RunEnding::stopped) return stop_at_once(turn);  // the committed step is saved
  const int64_t step = turn.now.trained.value;
  turn.log("stalled", {{"step", step}, {"seconds", event.seconds}});
  if (step <= std::exchange(state.stalled_at, std::max(state.stalled_at, step))) {
    const std::string how =
        fmt::format("waits for the others as they wait for it, for {:.1f} s and not for the first time", event.seconds);
    return turn.act(EndHungWorker{state.workers.front().id, how}, how);
  }
  turn.say(fmt::format("step {}: all workers wait for each other: begun again", step));
  if (!state.pending) {
    state.pending.emplace();
    state.pending->devices = devices_in_force(state);
  }
  stand_still(turn, "all workers wait for each other");
}

void stand_still(Turn& turn, std::string reason) {
  if (turn.state.phase != RunPhase::recovering) turn.state.stood_still = turn.now.time;
  turn.state.phase = RunPhase::recovering;
  turn.act(AbortStage{}, std::move(reason));
}

}  // namespace estrain::decisions
