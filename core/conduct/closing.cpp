// Closes a run: the committed state is saved, the workers go, the scribe finishes the files. Each event that the
// closing waits for takes it on. A scribe that is lost on the way is replaced once to save the state, and as often as
// the fault table allows to finish the files.

#include "core/conduct/turn.h"

namespace estrain::conduct {
namespace {

void refuse_all(Turn& turn) {
  State& state = turn.state;
  const Error too_late(Fault::usage, "the job ended first");
  if (state.pending) give_up_change(turn, too_late);
  if (state.resize && state.resize->client) turn.act(Refuse{*state.resize->client, too_late}, too_late.message());
  for (const WaitingRequest& waiting : state.waiting) turn.act(Refuse{waiting.client, too_late}, too_late.message());
  state.resize.reset();
  state.waiting.clear();
}

// Nobody needs the workers any more; what they hold may be what the scribe lacks.
void bring_scribe_back(Turn& turn) {
  State& state = turn.state;
  if (!state.scribe.returning) turn.act(KillAll{}, "the scribe may lack what the workers hold");
  state.scribe.returning = true;
  if (turn.now.ns >= state.scribe.start_at_ns) start_scribe(turn);
}

// True: nothing more can be done to save the last state.
bool is_saved_or_given_up(Turn& turn) {
  const Scribe& scribe = turn.state.scribe;
  const int64_t step = turn.now.trained.value;
  if (!turn.now.attached || scribe.last_saved_step == step || scribe.unsaved_step == step) return true;
  return !scribe.here && scribe.brought_back && (!scribe.returning || scribe.start_at_ns == 0);
}

void finish_files(Turn& turn) {
  State& state = turn.state;
  if (!state.scribe.here && state.scribe.start_at_ns == 0) {
    state.closing = Closing::closed;
    return;
  }
  if (!state.scribe.here) return bring_scribe_back(turn);
  if (state.scribe.told_to_finish) return;
  state.scribe.told_to_finish = true;
  turn.act(FinishFiles{}, "the run is over");
}

void save_last_state(Turn& turn) {
  State& state = turn.state;
  if (is_saved_or_given_up(turn)) {
    state.closing = Closing::finishing_files;
    state.scribe.returning = false;
    if (state.failure) {
      turn.act(KillAll{}, "the run has failed");
    } else {
      turn.act(DismissAll{}, "the state is saved");
    }
    return finish_files(turn);
  }
  if (!state.scribe.here) {
    state.scribe.brought_back = true;
    return bring_scribe_back(turn);
  }
  if (!state.scribe.asked_to_save) turn.act(SaveLastState{turn.now.trained}, "the run is over");
}

}  // namespace

void on_end_began(Turn& turn) {
  State& state = turn.state;
  if (state.closing != Closing::none) return;
  refuse_all(turn);
  if (state.failure || state.stop_at_once) {
    turn.act(KillAll{}, "the step under way is given up");
    if (turn.now.attached) turn.act(RepairState{}, "with what is left of it");
  }
  state.closing = Closing::saving;
  state.scribe.unsaved_step = -1;  // there may be room again
}

void on_save_begun(Turn& turn) { turn.state.scribe.asked_to_save = true; }

void on_scribe_done(Turn& turn) {
  turn.state.scribe.here = false;
  go_on_closing(turn);
}

void on_scribe_failed(Turn& turn, const ScribeFailed& event) {
  turn.state.failure = event.error;
  turn.state.phase = Phase::over;
}

void go_on_closing(Turn& turn) {
  if (turn.state.closing == Closing::saving) {
    save_last_state(turn);
  } else if (turn.state.closing == Closing::finishing_files) {
    finish_files(turn);
  }
}

}  // namespace estrain::conduct
