#pragma once
// Events of a job. Each goes to decide() once, in the order in which it was noticed. An event about a worker
// that is in no list any more says nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/run/decisions/state/change.h"
#include "core/run/decisions/state/fault.h"

namespace estrain::decisions {

// Time passes.
struct Tick {};

// Workers.
struct WorkerReady {
  WorkerId worker;
};
struct WorkerLeft {  // it has left the loop of the stage
  WorkerId worker;
  bool finished = false;  // all steps are done
};
struct WorkerLost {  // it ended, or was killed because it hung or reported an error
  WorkerId worker;
  Verdict verdict;
  std::string what;          // in words
  Error error;               // the run ends with it, if it ends
  std::string log;           // the file of its output
  int64_t last_beat_ns = 0;  // 0: none yet
  bool lingers = false;      // the kernel still holds the process
};
struct WorkerEnded {  // as it should: it was leaving
  WorkerId worker;
};
struct WorkerHangs {
  WorkerId worker;
  std::string how;  // "made no progress for 7.1 s"
};
struct AllWait {  // all workers of the stage wait for each other
  double seconds = 0;
};
struct CannotStart {  // the answer to StartWorkers: none of these runs
  std::vector<WorkerId> workers;
  Verdict verdict;
  Error error;
};
struct StageClosed {  // the answer to CloseStage
  bool held = false;  // the state stays as it is until the scribe has read it; false: not yet possible
  int64_t steps_redone = 0;
};

// The scribe.
struct Saved {
  Step step;
};
struct NotSaved {
  Step step;
  std::string error;
  bool no_room = false;        // the disk is full, or a quota: later there may be room
  uint64_t missing_bytes = 0;  // so much more is needed; 0: not known
};
struct NotWritten {  // records wait in memory
  std::string error;
};
struct SaveBegun {};   // the answer to SaveLastState, where it could be asked for
struct ScribeDone {};  // it finished the files
struct ScribeFailed {  // it says that the run cannot go on
  Error error;
};
struct ScribeLost {
  Verdict verdict;
  bool hung = false;
  std::string what;  // "hung", "exit status 1"
  std::string log;
};
struct CannotStartScribe {
  Verdict verdict;
  Error error;
};

// Requests. Each is answered once.
struct ChangeAsked {
  PendingChange change;
  std::optional<int64_t> requested_ns;  // absent: now
};
struct OfferAsked {
  ClientId client = 0;
  OfferRequest request;
};
struct ReclaimAsked {
  ClientId client = 0;
  ReclaimRequest request;
  Devices wanted;
  int64_t arrived_ns = 0;
  PendingChange shrunk;  // the shares after it: devices, workers, figures of the plan
};
struct StopAsked {
  std::string why;
  std::optional<ClientId> client = std::nullopt;
  bool insists = false;  // a second one gives up the step under way
};

// The job cannot go on: its hosts have come to different bits, nobody connects them, or what it trains cannot be put on
// record.
struct CannotGoOn {
  Error error;
};

// Training is over: the end begins.
struct EndBegan {};

using Event = std::variant<Tick, WorkerReady, WorkerLeft, WorkerLost, WorkerEnded, WorkerHangs, AllWait, CannotStart,
                           StageClosed, Saved, NotSaved, NotWritten, SaveBegun, ScribeDone, ScribeFailed, ScribeLost,
                           CannotStartScribe, ChangeAsked, OfferAsked, ReclaimAsked, StopAsked, CannotGoOn, EndBegan>;

}  // namespace estrain::decisions
