// Rules about reports and about the loss of the scribe. Records wait in memory, and the state waits in shared memory,
// until a new scribe replaces a lost one.

#include <fmt/format.h>

#include "core/run/decisions/turn.h"

namespace estrain::decisions {

void on_saved(Turn& turn, const StateSaved& event) {
  turn.state.scribe.last_saved_step = event.step.value;
  go_on_closing(turn);
}

void on_not_saved(Turn& turn, const NotSaved& event) {
  Scribe& scribe = turn.state.scribe;
  scribe.last_save_error = event.error;
  scribe.unsaved_step = event.step.value;
  scribe.missing_bytes = event.missing_bytes;
  if (turn.state.closing == Closing::saving) wait_for_room(turn, event);
  go_on_closing(turn);
}

// Gives up a change that would wait for room, too, if the change is only wished for and does not yet replace a lost
// worker.
void on_not_written(Turn& turn, const NotWritten& event) {
  const auto& pending = turn.state.pending;
  if (turn.state.phase == RunPhase::recovering) return;
  if (pending && pending->asked_for && !pending->give_back_by) give_up_change(turn, Error(Fault::io, event.error));
}

void on_scribe_lost(Turn& turn, const ScribeLost& event) {
  RunState& state = turn.state;
  state.scribe.here = false;
  state.scribe.asked_to_save = state.scribe.told_to_finish = state.scribe.returning = false;
  if (!count_fault(turn, event.verdict)) {
    fail(turn, Error::make(Fault::peer, "the scribe, which writes the run's files, {}{}",
                           event.hung ? "" : "ended with ", event.what)
                   .advise("see " + event.log));
    return go_on_closing(turn);
  }
  state.faults.push_back({.worker = kNobody,
                          .step = turn.now.trained,
                          .cause = event.verdict.cause,
                          .fault_class = event.verdict.fault_class,
                          .seconds_lost = 0.0});
  turn.say(fmt::format("step {}: lost the scribe, which writes the run's files ({}); another is started",
                       turn.now.trained, event.what));
  start_scribe(turn);
}

void on_cannot_start_scribe(Turn& turn, const CannotStartScribe& event) {
  Scribe& scribe = turn.state.scribe;
  scribe.here = scribe.asked_to_save = scribe.told_to_finish = false;
  scribe.start_at = next_start(turn, "the scribe, which writes the run's files,", event.verdict, event.error);
  go_on_closing(turn);
}

// Starts a scribe. The scribe's messages come with a later event: the start may fail.
void start_scribe(Turn& turn) {
  Scribe& scribe = turn.state.scribe;
  scribe.start_at = kNoTime;
  scribe.here = true;
  turn.act(StartScribe{}, "no scribe writes the run's files");
}

}  // namespace estrain::decisions
