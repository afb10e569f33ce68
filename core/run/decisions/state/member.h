#pragma once
// The known facts about a worker, for decisions. A Member is not the worker's process.

#include <cstdint>

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

}  // namespace estrain::decisions
