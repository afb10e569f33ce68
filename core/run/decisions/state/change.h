#pragma once
// A change of a job's workers or of their shares: wanted, under way, or carried out but without a step yet.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json/fields.h"
#include "core/base/json/json.h"
#include "core/run/decisions/state/member.h"
#include "core/run/decisions/state/request.h"

namespace estrain::decisions {

using ClientId = int64_t;  // of the control socket, from 1

// The exchange of the next stage. The workers of that stage prepare the exchange beside the stage under way.
struct NextExchange {
  int64_t ticket = 0;             // 0: none is being prepared
  std::vector<WorkerId> workers;  // in rank order
  std::vector<WorkerId> missing;  // without an answer so far
  MonotonicTime until{};          // then the change no longer waits

  bool is_made() const { return ticket != 0 && missing.empty(); }
};

// A planned change of workers, of shares or of the batch: by request of a user or the planner, or because a worker is
// lost, or both.
struct PendingChange {
  // The request.
  std::optional<ClientId> client;     // waits for the answer
  Assignment devices;                 // to run on
  std::vector<WorkerId> workers;      // wanted on these devices; kNobody: any; empty: any everywhere
  Devices held;                       // kinds of all devices of the job afterwards
  std::string why;                    // the origin of the change
  double estimated_step_seconds = 0;  // by the plan of this change; 0: no plan was made
  std::string plan_reason;
  std::optional<MonotonicTime> give_back_by;  // devices must be free by then
  bool keeps_devices = false;                 // only shares move: no checkpoint, no new launcher
  std::optional<ChangeRequest> batch;         // a change of the batch; devices and shares stay
  std::optional<Json> answer;                 // the client's answer, beside the figures

  // The change's progress.
  bool asked_for = false;     // by a user or the planner; else a fault alone is the cause
  std::string before;         // the devices in force at the request
  std::vector<Member> added;  // workers started for the change
  MonotonicTime requested{}, warmed{};
  Step requested_step;
  double step_seconds_before = 0;
  NextExchange exchange = {};
};

// A change that has been carried out, without a step so far.
struct ResizeUnderWay {
  std::optional<ClientId> client;  // waits for the answer
  std::string before, after;       // device lists
  Step step;                       // the last step before the pause
  MonotonicTime requested{}, warmed{}, stopped{};
  double step_seconds_before = 0;   // mean step time before the request
  double step_seconds_warming = 0;  // and while the new workers warmed up
  std::string why;                  // the origin of the change
  bool gives_back = false;          // a client waits for the devices
  bool keeps_devices = false;       // only shares move
  bool changes_batch = false;       // the change is on record, whatever happens to the workers
  std::optional<Json> answer;       // the client's answer, beside the figures

  // Fields kept by a handover: a handover happens only where devices change.
  ESTRAIN_FIELDS(client, before, after, step, requested, warmed, stopped, step_seconds_before, step_seconds_warming,
                 why, gives_back, changes_batch, answer)
};

// A request that could not be served at once: the client waits.
struct WaitingRequest {
  ClientId client = 0;
  Request request;
  MonotonicTime arrived{};

  ESTRAIN_FIELDS(client, request, arrived)
};

}  // namespace estrain::decisions
