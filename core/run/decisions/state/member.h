#pragma once
// A worker as decisions see it: not a process, but what is known of one.

#include <cstdint>

#include "core/base/ids.h"
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
  WorkerId id = kNobody;  // kNobody: a place that waits for its worker, before the first stage
  Device device;
  EstRange ests = {};  // its share; empty: none yet
  bool ready = false;  // it said that it can take up work
  bool left = false;   // it said that it left the loop of the stage
  int64_t rank = -1;   // in the stage under way; -1: in none

  // Fields that a handover keeps (state.h).
  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("id", self.id);
    visit("device", self.device);
    visit("ests", self.ests);
  }
};

}  // namespace estrain::decisions
