// Stops a job, after the step under way or at once with the committed step, and closes a run: the committed state is
// saved, the workers leave, the scribe finishes the files. Each awaited event takes the closing a part further. A
// scribe lost meanwhile is replaced once to save the state, and as often as the fault table allows to finish the files.
//
// On a full disk the closing waits for room, however the run ends, and says so every ten seconds. A user who asks for a
// stop meanwhile is told about the steps or records at stake. A second stop gives up these steps or records.

#include <fmt/format.h>

#include <utility>

#include "core/base/clock.h"
#include "core/base/process/memory_use.h"
#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

constexpr Nanoseconds kBetweenTries = 2s, kBetweenWords = 10s;

// Returns why there is no room, and how many bytes are missing.
std::string lack_of_room(const Scribe& scribe) {
  if (scribe.missing_bytes == 0) return scribe.last_save_error;
  return fmt::format("{}; {} more are needed ({} bytes)", scribe.last_save_error, format_bytes(scribe.missing_bytes),
                     scribe.missing_bytes);
}

// Returns the steps or records that giving up the wait for room loses.
std::string what_would_be_lost(const Turn& turn) {
  if (!turn.state.scribe.waits_for_room) return "records of saved steps, which no resume repeats";
  return fmt::format("steps {} to {}", newest_saved(turn.state) + 1, turn.now.trained);
}

std::string words_of_wait(const Turn& turn) {
  const Scribe& scribe = turn.state.scribe;
  if (!scribe.waits_for_room) return "the run's last records wait for room on the disk: " + turn.now.no_room;
  return fmt::format("the state of step {} waits for room on the disk: {}", turn.now.trained, lack_of_room(scribe));
}

void say_now_and_then(Turn& turn) {
  if (!may_say_again(turn)) return;
  turn.say(words_of_wait(turn) + ". Free some, and the run ends by itself. To give up " + what_would_be_lost(turn) +
           (turn.state.scribe.told_what_is_lost ? ": stop it once more" : ": stop it twice"));
}

void refuse_all(Turn& turn) {
  RunState& state = turn.state;
  const Error too_late(Fault::usage, "the job ended first");
  if (state.pending) give_up_change(turn, too_late);
  if (state.resize && state.resize->client) {
    if (state.resize->changes_batch) {
      turn.act(Answer{*state.resize->client, *state.resize->answer}, "the change is on record");
    } else {
      turn.act(Refuse{*state.resize->client, too_late}, too_late.message());
    }
  }
  for (const WaitingRequest& waiting : state.waiting) turn.act(Refuse{waiting.client, too_late}, too_late.message());
  state.resize.reset();
  state.waiting.clear();
}

// Ends the workers, which are no longer needed, since the scribe may lack their resources. Replaces the scribe.
void bring_scribe_back(Turn& turn) {
  RunState& state = turn.state;
  if (!state.scribe.returning) turn.act(KillAll{}, "the scribe may lack what the workers hold");
  state.scribe.returning = true;
  if (turn.now.time >= state.scribe.start_at) start_scribe(turn);
}

// Returns true if nothing more can be done to save the last state.
bool is_saved_or_given_up(Turn& turn) {
  const Scribe& scribe = turn.state.scribe;
  const int64_t step = turn.now.trained.value;
  if (!turn.now.attached || scribe.last_saved_step == step) return true;
  if (scribe.unsaved_step == step && !scribe.waits_for_room) return true;
  return !scribe.here && scribe.brought_back && (!scribe.returning || scribe.start_at == kNoTime);
}

void finish_files(Turn& turn) {
  RunState& state = turn.state;
  if (!state.scribe.here && state.scribe.start_at == kNoTime) {
    state.closing = Closing::closed;
    return;
  }
  if (!state.scribe.here) return bring_scribe_back(turn);
  if (has_no_room(turn)) say_now_and_then(turn);
  if (state.scribe.told_to_finish) return;
  state.scribe.told_to_finish = true;
  turn.act(TellFinish{}, "the run is over");
}

void save_last_state(Turn& turn) {
  RunState& state = turn.state;
  if (is_saved_or_given_up(turn)) {
    state.closing = Closing::finishing_files;
    state.scribe.waits_for_room = state.scribe.told_what_is_lost = false;
    state.scribe.say_again_at = turn.now.time + kBetweenWords;
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
  if (state.scribe.waits_for_room) {
    say_now_and_then(turn);
    if (turn.now.time < state.scribe.try_again_at) return;
  }
  if (!state.scribe.asked_to_save) turn.act(SaveLastState{turn.now.trained}, "the run is over");
}

}  // namespace

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

void on_end_began(Turn& turn) {
  RunState& state = turn.state;
  if (state.closing != Closing::none) return;
  refuse_all(turn);
  if (state.failure || state.stop_at_once) {
    turn.act(KillAll{}, "the step under way is given up");
    if (turn.now.attached) turn.act(RepairState{}, "with what is left of it");
  }
  state.closing = Closing::saving;
  state.scribe.unsaved_step = -1;  // the disk may have room again
}

// Waits for room, unless the checkpoint resumed by this launch already has the state.
void wait_for_room(Turn& turn, const NotSaved& event) {
  Scribe& scribe = turn.state.scribe;
  const bool is_last = event.step == turn.now.trained, loses = event.step.value > newest_saved(turn.state);
  if (!is_last || !loses || !event.no_room) {
    if (is_last) scribe.waits_for_room = false;
    return;
  }
  scribe.waits_for_room = true;
  scribe.asked_to_save = false;
  scribe.try_again_at = turn.now.time + kBetweenTries;
}

bool may_say_again(Turn& turn) {
  MonotonicTime& at = turn.state.scribe.say_again_at;
  if (turn.now.time < at) return false;
  at = turn.now.time + kBetweenWords;
  return true;
}

bool has_no_room(const Turn& turn) {
  const RunState& state = turn.state;
  if (state.closing == Closing::saving) return state.scribe.waits_for_room;
  return state.closing == Closing::finishing_files && state.scribe.told_to_finish && !turn.now.no_room.empty();
}

void on_stop_without_room(Turn& turn, const StopAsked& event) {
  Scribe& scribe = turn.state.scribe;
  if (!std::exchange(scribe.told_what_is_lost, true)) {
    const std::string what = words_of_wait(turn) + ". To give it up loses " + what_would_be_lost(turn);
    if (!event.client) return turn.say(what + ". Stop once more to give it up");
    return turn.act(Refuse{*event.client, Error(Fault::io, what)
                                              .advise("free some, and the run ends by itself; or "
                                                      "stop once more to give it up")},
                    "there is no room");
  }
  if (event.client) turn.state.stop_clients.push_back(*event.client);
  turn.say("given up, as asked: " + what_would_be_lost(turn));
  if (!scribe.waits_for_room) return turn.act(TellFinish{}, "what has no room is given up");
  scribe.waits_for_room = false;
  go_on_closing(turn);
}

void on_save_begun(Turn& turn) { turn.state.scribe.asked_to_save = true; }

void on_scribe_done(Turn& turn) {
  turn.state.scribe.here = false;
  go_on_closing(turn);
}

void on_scribe_failed(Turn& turn, const ScribeFailed& event) {
  turn.state.failure = event.error;
  turn.state.phase = RunPhase::over;
}

void go_on_closing(Turn& turn) {
  if (turn.state.closing == Closing::saving) {
    save_last_state(turn);
  } else if (turn.state.closing == Closing::finishing_files) {
    finish_files(turn);
  }
}

}  // namespace estrain::decisions
