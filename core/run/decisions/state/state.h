#pragma once
// The state behind all decisions about a running job. A RunState is a value: tests copy and compare a RunState, and the
// launcher hands the RunState over to its next self. Only decide.h changes a RunState.
//
//   starting --> training <--> warming --> pausing --> training
//       |            |             |           |
//       |            +---- recovering ---------+    a worker is lost: the others stand still, warm, until it is
//       replaced |                        |
//       +------------------------+------ over: finished, stopped or failed
//
// After `over` comes the closing: the last state is saved, the workers are dismissed, the scribe is told to finish.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/run/decisions/state/change.h"
#include "core/run/decisions/state/member.h"

namespace estrain::decisions {

enum class RunPhase { starting, training, warming, pausing, recovering, over };
enum class RunEnding { none, finished, stopped };
enum class Closing { none, saving, finishing_files, closed };

// The process for writing the run's files.
struct Scribe {
  bool here = true;
  bool told_to_finish = false;
  bool asked_to_save = false;    // for the last state
  bool brought_back = false;     // for the last state, once only
  bool returning = false;        // the scribe is being replaced
  MonotonicTime start_at{};      // the time of the next start; kNoTime: no start is planned
  int64_t last_saved_step = -1;  // -1: no checkpoint of this run's yet
  int64_t unsaved_step = -1;     // the last step whose state could not be saved
  std::string last_save_error;
  uint64_t missing_bytes = 0;  // of room for the unsaved state; 0: not known

  // While the end of the run waits for room.
  bool waits_for_room = false;  // the last state was refused for want of room: the scribe tries again
  MonotonicTime try_again_at{};
  MonotonicTime say_again_at{};    // the user is told now and then
  bool told_what_is_lost = false;  // to a client asking for a stop meanwhile: the next stop gives up the rest
};

struct RunState {
  // The job.
  int64_t ests = 1;
  int64_t retries = 0;         // the most faults in a row at a step that the run survives
  std::string host;            // the launcher's own host, by its name in device lists
  bool gpus_exchange = false;  // the job lets GPUs pass data to each other (exchange_between_gpus())

  int64_t from_step = 0;  // of the checkpoint resumed by this launch

  RunPhase phase = RunPhase::starting;
  RunEnding ending = RunEnding::none;
  Closing closing = Closing::none;
  int64_t stage = 0;

  // The job's processes.
  std::vector<Member> workers;  // of the stage, in rank order; before the first stage, places for workers
  std::vector<Member> leaving;  // told to leave or killed, and not ended yet
  int64_t workers_started = 0;
  int64_t exchanges_asked = 0;  // the last ticket
  Scribe scribe;
  Devices held;  // all devices of the job, with the idle devices
  // Where all_left() begins to look: a worker found in its loop before. The place changes no result; without it, the
  // reports of W workers would cost W * W looks.
  mutable size_t in_loop = 0;

  // The change under way.
  std::optional<PendingChange> pending;
  std::optional<ResizeUnderWay> resize;
  std::vector<WaitingRequest> waiting;
  MonotonicTime stood_still{};  // the workers have been leaving an aborted stage since then
  MonotonicTime
      start_missing_at{};  // the end of the back-off before lost workers are replaced; kNoTime: no worker is missing

  // Faults.
  std::optional<LostWorker> recovery;  // the loss after which no step has been seen yet
  Step fault_step{-1};                 // the step of the last fault
  int64_t faults_at_step = 0;          // faults in a row at the fault step
  int64_t stalled_at = -1;             // the last step after which all workers waited for each other
  bool less_memory = false;            // workers started from here on read ahead less
  std::vector<SurvivedFault> faults;
  std::optional<Error> failure;  // the run ends with this error
  WorkerId failed = kNobody;     // the failed worker, if a worker failed

  // The stop.
  std::string stop_reason;
  bool stop_at_once = false;
  std::vector<ClientId> stop_clients;
  MonotonicTime stop_deadline{};  // from then on, a stop no longer waits for the step under way; kNoTime: no stop
  double grace_seconds = 0;       // from a signal to the checkpoint; afterwards the step under way is discarded

  // Fields kept by a handover (after_handover).
  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("ests", self.ests);
    visit("retries", self.retries);
    visit("host", self.host);
    visit("gpus_exchange", self.gpus_exchange);
    visit("from_step", self.from_step);
    visit("stage", self.stage);
    visit("workers", self.workers);
    visit("leaving", self.leaving);
    visit("workers_started", self.workers_started);
    visit("exchanges_asked", self.exchanges_asked);
    visit("last_saved_step", self.scribe.last_saved_step);
    visit("held", self.held);
    visit("resize", self.resize);
    visit("waiting", self.waiting);
    visit("recovery", self.recovery);
    visit("fault_step", self.fault_step);
    visit("faults_at_step", self.faults_at_step);
    visit("less_memory", self.less_memory);
    visit("faults", self.faults);
    visit("grace_seconds", self.grace_seconds);
  }
};

// The world at the moment of a decision: the time, and words of shared memory.
struct Moment {
  MonotonicTime time{};
  bool attached = false;             // the shared memory stands: the job has begun to train
  Step trained;                      // the newest trained step; before the memory is attached, the step to resume from
  MonotonicTime stopped{};           // when the last step before a pause was committed
  int64_t stage_started = 0;         // workers in the stage
  MonotonicTime stage_started_at{};  // the start of the last one
  double step_seconds = 0;           // mean of late; 0: not known
  std::string no_room;               // why the scribe cannot write; empty: no obstacle, or nothing to write
};

Assignment devices_in_force(const RunState& state);  // each with its number of ESTs
// Returns whether workers on these devices pass data between GPUs: each has a GPU of its own, on the launcher's host.
bool exchange_between_gpus(const RunState& state, const Devices& devices);
std::vector<const Member*> all_members(const RunState& state);  // of all three lists, without empty places
const Member* find_member(const RunState& state, WorkerId id);  // null: no list has the worker
// Returns the size of the list if the list does not have the worker. Fast where ids rise along the list, as they do but
// for replaced workers.
size_t index_of(const std::vector<Member>& list, WorkerId id);
bool is_leaving(const RunState& state, WorkerId id);
bool all_left(const RunState& state);

// The job trains and nothing else is under way.
bool is_settled(const RunState& state);
// Returns why no change can begin now; nothing if a change can begin.
std::optional<Error> why_not_now(const RunState& state, const Moment& now);

// Returns the newest step in a checkpoint.
int64_t newest_saved(const RunState& state);

// The part of the state that the launcher keeps over a re-exec. The rest begins anew.
RunState after_handover(const RunState& state);

}  // namespace estrain::decisions
