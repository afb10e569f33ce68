#pragma once

#include <utility>

#include "core/base/clock.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Calls `body`, which waits for other workers, and shows the launcher `activity` meanwhile. Returns `body`'s result.
template <typename Body>
bool waiting(comm::WorkerPulse& pulse, comm::Activity activity, Body&& body) {
  pulse.beat(activity, monotonic_ns());
  const bool carry_on = std::forward<Body>(body)();
  pulse.beat(comm::Activity::computing, monotonic_ns());
  return carry_on;
}

}  // namespace estrain::train
