#pragma once
// Faults as decisions see them: what the fault table said (core/run/faults/diagnosis.h), who is lost, and what a run
// has been through.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/run/decisions/state/member.h"

namespace estrain::decisions {

// The parts of a diagnosis that decisions rest on, and its words.
struct Verdict {
  std::string cause;           // "cpu_out_of_memory"
  std::string fault_class;     // "user", "infrastructure", "engine"
  std::string description;     // the cause in words
  bool retry = false;          // whether starting the process anew can help
  double backoff_seconds = 0;  // before the first attempt (back_off.h)
  bool other_device = false;   // the device itself is suspect: go on without it
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
};

// A worker that is gone, and what is known of it. Times are monotonic.
struct Loss {
  WorkerId worker;
  Device device;
  EstRange ests;
  std::string cause;
  std::string what;          // in words: "killed by SIGKILL"
  Step step;                 // the newest trained step when the loss was noticed
  int64_t steps_redone = 0;  // of the trained steps: their state was lost with a GPU's memory
  int64_t last_beat_ns = 0;  // its last sign of life; 0: none yet
  int64_t noticed_ns = 0;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("worker", self.worker);
    visit("device", self.device);
    visit("ests", self.ests);
    visit("cause", self.cause);
    visit("what", self.what);
    visit("step", self.step);
    visit("steps_redone", self.steps_redone);
    visit("last_beat_ns", self.last_beat_ns);
    visit("noticed_ns", self.noticed_ns);
  }
};

// A fault that the run survived, for the report at its end.
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
