#pragma once
// One call of decide(): the state read and changed by the rules, and the actions added by the rules. Rules with several
// files as users are named here.

#include <string>
#include <utility>
#include <vector>

#include "core/run/decisions/action.h"
#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"

namespace estrain::decisions {

struct Turn {
  RunState& state;
  const Moment& now;
  std::vector<Action> actions;

  void act(Deed deed, std::string reason = {}) { actions.push_back({std::move(deed), std::move(reason)}); }
  void say(std::string line) { act(Say{std::move(line)}); }
  void log(std::string event, Json details) { act(Log{std::move(event), std::move(details)}); }
};

// starting.cpp
void on_ready(Turn& turn, const WorkerReady& event);
void recover_start(Turn& turn, const LostWorker& loss,
                   const FaultVerdict& verdict);  // a worker is lost before the first stage
void start_first_workers(Turn& turn);

// loss.cpp
void on_lost(Turn& turn, const WorkerLost& event);
void on_ended(Turn& turn, const WorkerEnded& event);
void on_cannot_start(Turn& turn, const CannotStart& event);
bool count_fault(Turn& turn, const FaultVerdict& verdict);
// Over several hosts the launcher's own host keeps a worker: no stage opens without a worker on that host.
bool can_do_without(const RunState& state, Devices devices, const Device& device);
void give_up_device(Turn& turn, const LostWorker& loss, const Assignment& rest);  // `rest`: the devices left to the job
// Returns the time of the next attempt to start a process. kNoTime: no attempt is left, and the run ends.
MonotonicTime next_start(Turn& turn, const std::string& who, const FaultVerdict& verdict, const Error& error);
void report_recovery(Turn& turn);
void fail(Turn& turn, Error error);  // the first failure counts
// Returns the wait before the next attempt, after `faults` in a row: `first_seconds` after one fault, twice as long
// after each further fault, kLongestBackOffSeconds at most.
inline constexpr double kLongestBackOffSeconds = 3600;
Nanoseconds back_off(double first_seconds, int64_t faults);
void on_hangs(Turn& turn, const WorkerHangs& event);
void on_all_wait(Turn& turn, const AllWait& event);
void stand_still(Turn& turn, std::string reason);

// resize.cpp
void on_left(Turn& turn, const WorkerLeft& event);
void on_change_asked(Turn& turn, const ChangeAsked& event);
void on_stage_closed(Turn& turn, const StageClosed& event);
void begin_change(Turn& turn, PendingChange change, MonotonicTime requested);
void ask_for(Turn& turn, PendingChange change, MonotonicTime requested);
void give_up_change(Turn& turn, const Error& error);
void start_missing_workers(Turn& turn);
bool misses_workers(const RunState& state);
std::vector<WorkerId> unneeded_workers(
    const RunState& state);  // the pending change leaves these workers without a share
void added_workers_ready(Turn& turn);
void on_exchange_prepared(Turn& turn, const ExchangePrepared& event);
void watch_exchange(Turn& turn);
void give_up_exchange(Turn& turn);  // of the pending change, if any is being prepared or made
void change_if_ready(Turn& turn);
void watch_resize(Turn& turn);

// reclaim.cpp
void on_offer_asked(Turn& turn, const OfferAsked& event);
void on_reclaim_asked(Turn& turn, const ReclaimAsked& event);
void hurry_reclaims(Turn& turn);
void take_up_waiting(Turn& turn);

// scribe.cpp
void on_saved(Turn& turn, const StateSaved& event);
void on_not_saved(Turn& turn, const NotSaved& event);
void on_not_written(Turn& turn, const NotWritten& event);
void on_scribe_lost(Turn& turn, const ScribeLost& event);
void on_cannot_start_scribe(Turn& turn, const CannotStartScribe& event);
void start_scribe(Turn& turn);

// closing.cpp
void on_stop_asked(Turn& turn, const StopAsked& event);
void request_stop(Turn& turn, std::string why);
void stop_at_once(Turn& turn);  // with the committed step; the step under way is discarded
void pause_stage(Turn& turn, std::string reason);
void watch_stop_deadline(Turn& turn);
void on_end_began(Turn& turn);
void on_save_begun(Turn& turn);
void on_scribe_done(Turn& turn);
void on_scribe_failed(Turn& turn, const ScribeFailed& event);
void go_on_closing(Turn& turn);
void wait_for_room(Turn& turn, const NotSaved& event);  // the scribe tries the last state again if only room is missing
// Handles a stop while the rest has no room: the first stop says what a give-up loses, the next gives the rest up.
void on_stop_without_room(Turn& turn, const StopAsked& event);
bool may_say_again(Turn& turn);      // allows the message about missing room every ten seconds
bool has_no_room(const Turn& turn);  // the run is being closed, and the rest to be written has no room

// Moves the member to the leaving members.
void move_to_leaving(RunState& state, std::vector<Member>& list, WorkerId id);

}  // namespace estrain::decisions
