#pragma once
// The known facts about a worker, for decisions. A Member is not the worker's process.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/json/fields.h"
#include "core/job/placement/assignment.h"

namespace estrain::decisions {

using placement::Assignment;
using placement::Device;
using placement::Devices;
using placement::Share;

// Counts all workers ever started in a run.
using WorkerId = Id<struct WorkerIdTag>;
inline constexpr WorkerId kNobody{-1};

struct Member {
  WorkerId id = kNobody;  // kNobody: a place waiting for its worker, before the first stage
  Device device;
  EstRange ests = {};  // the worker's share; empty: none yet
  bool ready = false;  // the worker said: ready for work
  bool left = false;   // the worker said: out of the stage's loop
  int64_t rank = -1;   // in the stage under way; -1: in no stage

  // Fields kept by a handover (state.h).
  ESTRAIN_FIELDS(id, device, ests)
};

// Faults as decisions see them: the verdict of the fault table (core/run/faults/diagnosis.h), the lost worker, and the
// faults survived by a run.

// The parts of a diagnosis for decisions, and its words.
struct FaultVerdict {
  std::string cause;           // "cpu_out_of_memory"
  std::string fault_class;     // "user", "infrastructure", "engine"
  std::string description;     // the cause in words
  bool retry = false;          // whether starting the process anew can help
  double backoff_seconds = 0;  // before the first attempt (back_off() of core/run/decisions/turn.h)
  bool other_device = false;   // the device itself is suspect: continue without it
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
};

// A lost worker and the last known figures.
struct LostWorker {
  WorkerId worker;
  Device device;
  EstRange ests;
  std::string cause;
  std::string what;           // in words: "killed by SIGKILL"
  Step step;                  // the newest trained step when the loss was noticed
  int64_t steps_redone = 0;   // of the trained steps: their state was lost with a GPU's memory
  MonotonicTime last_beat{};  // the last sign of life; kNoTime: none yet
  MonotonicTime noticed{};

  ESTRAIN_FIELDS(worker, device, ests, cause, what, step, steps_redone, last_beat, noticed)
};

// A fault survived by the run, for the report at the run's end.
struct SurvivedFault {
  WorkerId worker;  // kNobody: the scribe
  Step step;
  std::string cause, fault_class;
  std::optional<double> seconds_lost = std::nullopt;  // known when the run has recovered
  int64_t steps_redone = 0;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("worker", self.worker);
    visit("step", self.step);
    visit("cause", self.cause);
    visit("class", self.fault_class);
    visit("seconds_lost", self.seconds_lost);
    visit("steps_redone", self.steps_redone);
  }
};

}  // namespace estrain::decisions
