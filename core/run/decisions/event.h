#pragma once
// Events of a job. Each event goes to decide() once, in the order of noticing. An event about a worker no longer in any
// list says nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/run/decisions/state/change.h"
#include "core/run/decisions/state/member.h"

namespace estrain::decisions {

// Time passes.
struct Tick {};

// Workers.
struct WorkerReady {
  WorkerId worker;
};
struct WorkerLeft {  // the worker has left the loop of the stage
  WorkerId worker;
  bool finished = false;  // all steps are done
};
struct ExchangePrepared {  // by a worker of the next stage
  WorkerId worker;
  int64_t ticket = 0;
  bool made = false;
};
struct WorkerLost {  // the worker ended, or was killed because it hung or reported an error
  WorkerId worker;
  FaultVerdict verdict;
  std::string what;           // in words
  Error error;                // the error of the run, if the run ends by this loss
  std::string log;            // the file of the worker's output
  MonotonicTime last_beat{};  // kNoTime: none yet
  bool lingers = false;       // the kernel still holds the process
};
struct WorkerEnded {  // as expected: the worker was leaving
  WorkerId worker;
};
struct WorkerHangs {
  WorkerId worker;
  std::string how;  // "made no progress for 7.1 s"
};
struct AllWait {  // all workers of the stage wait for each other
  double seconds = 0;
};
struct CannotStart {  // the answer to StartWorkers: none of these workers runs
  std::vector<WorkerId> workers;
  FaultVerdict verdict;
  Error error;
};
struct StageClosed {  // the answer to CloseStage, unless a change of the batch cannot be put on record (CannotGoOn)
  bool held = false;  // the state stays unchanged until the scribe has read it; false: not yet possible
  int64_t steps_redone = 0;
  std::optional<Json> batch = {};  // the change of the batch on record, for its client
};

// The scribe.
struct StateSaved {
  Step step;
};
struct NotSaved {
  Step step;
  std::string error;
  bool no_room = false;        // the disk or a quota is full: room may appear later
  uint64_t missing_bytes = 0;  // bytes still needed; 0: not known
};
struct NotWritten {  // records wait in memory
  std::string error;
};
struct SaveBegun {};   // the answer to SaveLastState, if the scribe could be asked to save
struct ScribeDone {};  // the scribe has finished the files
struct ScribeFailed {  // the scribe says that the run cannot continue
  Error error;
};
struct ScribeLost {
  FaultVerdict verdict;
  bool hung = false;
  std::string what;  // "hung", "exit status 1"
  std::string log;
};
struct CannotStartScribe {
  FaultVerdict verdict;
  Error error;
};

// Requests. Each is answered once.
struct ChangeAsked {
  PendingChange change;
  std::optional<MonotonicTime> requested;  // absent: now
};
struct OfferAsked {
  ClientId client = 0;
  OfferRequest request;
};
struct ReclaimAsked {
  ClientId client = 0;
  ReclaimRequest request;
  Devices wanted;
  MonotonicTime arrived{};
  PendingChange shrunk;  // the shares after the reclaim: devices, workers, figures of the plan
};
struct StopAsked {
  std::string why;
  std::optional<ClientId> client = std::nullopt;
  bool insists = false;  // a second request discards the step under way
};

// The job cannot continue: its hosts have come to different bits, the hosts have lost their connections, or the spec of
// this launch or a change of the batch cannot be put on record.
struct CannotGoOn {
  Error error;
};

// Training is over: the end begins.
struct EndBegan {};

using Event =
    std::variant<Tick, WorkerReady, WorkerLeft, ExchangePrepared, WorkerLost, WorkerEnded, WorkerHangs, AllWait,
                 CannotStart, StageClosed, StateSaved, NotSaved, NotWritten, SaveBegun, ScribeDone, ScribeFailed,
                 ScribeLost, CannotStartScribe, ChangeAsked, OfferAsked, ReclaimAsked, StopAsked, CannotGoOn, EndBegan>;

}  // namespace estrain::decisions
