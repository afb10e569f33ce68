#pragma once
// A change of a job's workers or of their shares: wanted, under way, or carried out and not yet seen to work.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/run/decisions/state/member.h"
#include "core/run/decisions/state/request.h"

namespace estrain::decisions {

using ClientId = int64_t;  // of the control socket, from 1

// The workers, or their shares, are about to change: a user or the planner asked for it, or a worker is lost, or both.
struct PendingChange {
  // The request.
  std::optional<ClientId> client;     // waits for the answer
  Assignment devices;                 // to run on
  std::vector<WorkerId> workers;      // that are to serve them; kNobody: any; empty: any everywhere
  Devices held;                       // kinds of all devices that the job has afterwards
  std::string why;                    // what asked for it
  double estimated_step_seconds = 0;  // by the plan it carries out; 0: none was made
  std::string plan_reason;
  std::optional<int64_t> give_back_ns;  // devices must be free by then
  bool keeps_devices = false;           // only shares move: no checkpoint, no new launcher
  std::optional<Json> answer;           // what the client is told beside the figures

  // Its progress. Times are monotonic.
  bool asked_for = false;     // by a user or the planner; else a fault alone is the cause
  std::string before;         // the devices in force when it was asked for
  std::vector<Member> added;  // started for it
  int64_t requested_ns = 0, warmed_ns = 0;
  Step requested_step;
  double step_seconds_before = 0;
};

// A change that has been carried out but whose first step has not been seen yet.
struct ResizeUnderWay {
  std::optional<ClientId> client;                           // waits for the answer
  std::string before, after;                                // device lists
  Step step;                                                // at which the workers stood still
  int64_t requested_ns = 0, warmed_ns = 0, stopped_ns = 0;  // monotonic
  double step_seconds_before = 0;                           // mean step time before the request
  double step_seconds_warming = 0;                          // and while the new workers warmed up
  std::string why;                                          // what asked for it
  bool gives_back = false;                                  // devices that somebody waits for
  bool keeps_devices = false;                               // only shares move
  std::optional<Json> answer;                               // what the client is told beside the figures

  // Fields that a handover keeps: it happens only where devices change.
  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("client", self.client);
    visit("before", self.before);
    visit("after", self.after);
    visit("step", self.step);
    visit("requested_ns", self.requested_ns);
    visit("warmed_ns", self.warmed_ns);
    visit("stopped_ns", self.stopped_ns);
    visit("step_seconds_before", self.step_seconds_before);
    visit("step_seconds_warming", self.step_seconds_warming);
    visit("why", self.why);
    visit("gives_back", self.gives_back);
    visit("answer", self.answer);
  }
};

// A request that could not be served at once: its client waits.
struct WaitingRequest {
  ClientId client = 0;
  Request request;
  int64_t arrived_ns = 0;  // monotonic

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("client", self.client);
    visit("request", self.request);
    visit("arrived_ns", self.arrived_ns);
  }
};

}  // namespace estrain::decisions
