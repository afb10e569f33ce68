// Stops a job: after the step under way, or at once with the committed step.

#include <fmt/format.h>

#include <utility>

#include "core/base/clock.h"
#include "core/run/decisions/turn.h"

namespace estrain::decisions {

void on_stop_asked(Turn& turn, const StopAsked& event) {
  RunState& state = turn.state;
  if (has_no_room(turn)) return on_stop_without_room(turn, event);
  if ((state.ending == RunEnding::finished || state.failure) && event.client)
    return turn.act(Refuse{*event.client, Error(Fault::usage, "the job is already ending")}, "all steps are done");
  if (event.client) state.stop_clients.push_back(*event.client);
  if (state.phase == RunPhase::over) return;
  const bool second = state.ending == RunEnding::stopped;
  request_stop(turn, event.why);
  if (second && event.insists) stop_at_once(turn);
}

void request_stop(Turn& turn, std::string why) {
  RunState& state = turn.state;
  if (state.ending != RunEnding::none || state.phase == RunPhase::over) return;
  state.ending = RunEnding::stopped;
  const bool no_step_under_way = state.phase == RunPhase::starting || state.phase == RunPhase::recovering;
  turn.say("stopping (" + why + ")" + (no_step_under_way ? "" : ": a checkpoint is written after the step under way"));
  state.stop_reason = std::move(why);
  if (state.pending) give_up_change(turn, Error(Fault::interrupted, "the job is being stopped"));
  if (no_step_under_way) return stop_at_once(turn);
  if (state.phase == RunPhase::pausing && all_left(state)) {
    state.phase = RunPhase::over;
    return;
  }
  state.stop_deadline = turn.now.time + nanoseconds(Seconds(state.grace_seconds));
  pause_stage(turn, state.stop_reason);
}

void stop_at_once(Turn& turn) {
  turn.state.stop_at_once = true;
  turn.state.phase = RunPhase::over;
}

void pause_stage(Turn& turn, std::string reason) {
  turn.state.phase = RunPhase::pausing;
  turn.act(PauseStage{}, std::move(reason));
}

void watch_stop_deadline(Turn& turn) {
  RunState& state = turn.state;
  if (state.phase == RunPhase::over || state.ending != RunEnding::stopped || state.stop_deadline == kNoTime) return;
  if (!turn.now.no_room.empty() && may_say_again(turn))
    turn.say(
        fmt::format("records wait for room on the disk: {}. The step under way may wait with them, until the grace of "
                    "{} s is over. "
                    "Free some, and the run stops by itself",
                    turn.now.no_room, state.grace_seconds));
  if (turn.now.time <= state.stop_deadline) return;
  turn.say(fmt::format("the step under way takes longer than the grace of {} s: given up", state.grace_seconds));
  stop_at_once(turn);
}

}  // namespace estrain::decisions
