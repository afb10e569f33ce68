#pragma once
// The actions of a decision. The launcher carries the actions out in order. An action may have an answer: the launcher
// hands the answer to decide() before all further events.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/run/decisions/state/change.h"
#include "core/run/decisions/state/member.h"

namespace estrain::decisions {

// Words.
struct Say {  // a line for the user
  std::string line;
};
struct Log {  // a line of events.jsonl
  std::string event;
  Json details;
};
struct NoteDecision {  // for the user, events.jsonl and `status`
  std::string what, reason;
};
struct Answer {
  ClientId client = 0;
  Json answer;
};
struct Refuse {
  ClientId client = 0;
  Error error;
};

// Workers.
struct WorkerOrder {
  WorkerId id;
  Device device;
  bool first = false;  // the worker builds the state if the state has not been built
};
// Starts the workers one after another, up to the first failure. CannotStart names the failed worker and the rest.
struct StartWorkers {
  std::vector<WorkerOrder> workers;
};
struct EndHungWorker {  // kill the worker; WorkerLost tells its end
  WorkerId worker;
  std::string how;
};
struct KillWorker {  // WorkerEnded tells the worker's end
  WorkerId worker;
  bool waits = true;  // until the worker has ended and no longer touches the shared memory
};
struct TellLeave {
  WorkerId worker;
};
struct KillAll {};     // no worker touches the shared memory any more
struct DismissAll {};  // told to leave, and waited for

// The stage.
struct BeginTraining {};  // the state is built: attach it, and save the first state
struct PauseStage {};     // the workers leave after one agreed step
struct AbortStage {};     // the workers leave at once
struct CloseStage {       // no worker is in its loop: answered by StageClosed
  bool repair = false;    // a step was discarded
  bool hold = false;      // the scribe is to read the state
  // A change of the batch for the next stage, to put on record once the state is held.
  std::optional<ChangeRequest> batch = {};
};
struct OpenStage {
  bool changed = false;  // the shares differ from those of the stage before
  int64_t exchange = 0;  // the ticket of the exchange that the stage's workers have prepared; 0: none
};
struct PrepareExchange {  // between these workers, in rank order; each answers by ExchangePrepared
  int64_t ticket = 0;
  std::vector<WorkerId> workers;
};
struct GiveUpExchange {};  // the one asked for last
struct TellSave {          // the state is held
  Step step;
};
struct ReleaseSlots {};
struct HandOver {  // to the launcher's next self, with the plan in force now
};
struct AdoptPlan {
  double estimated_step_seconds = 0;
  std::string reason;
};
struct RepairState {};  // after KillAll

// Requests.
struct TakeUp {  // a waiting request
  WaitingRequest waiting;
};
struct WeighOffer {
  ClientId client = 0;
  OfferRequest request;
};
struct ReportResize {
  ResizeUnderWay resize;
};
struct ReportRecovery {
  LostWorker loss;
  double seconds = 0;  // from the lost worker's last sign of life to the next step
};

// The scribe.
struct StartScribe {};
struct SaveLastState {  // answered by SaveBegun once the state can be held
  Step step;
};
struct TellFinish {};

using Deed = std::variant<Say, Log, NoteDecision, Answer, Refuse, StartWorkers, EndHungWorker, KillWorker, TellLeave,
                          KillAll, DismissAll, BeginTraining, PauseStage, AbortStage, CloseStage, OpenStage,
                          PrepareExchange, GiveUpExchange, TellSave, ReleaseSlots, HandOver, AdoptPlan, RepairState,
                          TakeUp, WeighOffer, ReportResize, ReportRecovery, StartScribe, SaveLastState, TellFinish>;

struct Action {
  Deed deed;
  std::string reason;  // why, in words
};

}  // namespace estrain::decisions
