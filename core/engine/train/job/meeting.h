#pragma once
// Waits of a worker for the other workers of the stage, in shared memory. The launcher can see the waiting workers.

#include <atomic>
#include <utility>

#include "core/base/clock.h"
#include "core/engine/train/job/stage_order.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/meetings/barrier.h"

namespace estrain::train {

// Calls `body`, which waits for other workers, and shows the launcher `activity` meanwhile. Returns `body`'s result.
template <typename Body>
bool waiting(comm::WorkerPulse& pulse, comm::Activity activity, Body&& body) {
  pulse.beat(activity, monotonic_ns());
  const bool carry_on = std::forward<Body>(body)();
  pulse.beat(comm::Activity::computing, monotonic_ns());
  return carry_on;
}

// A StageMeeting brings all workers of the stage together.
class StageMeeting {
 public:
  StageMeeting(comm::BarrierWords& words, comm::JobMemory& memory, const StageOrder& order);

  // Returns false if the stage was aborted.
  bool meet() {
    return waiting(pulse_, comm::Activity::meeting, [this] { return barrier_.meet(); });
  }
  // The last worker to arrive calls `for_all` before the meeting ends for each worker.
  template <typename ForAll>
  bool meet(ForAll&& for_all) {
    const auto once = [&] {
      std::forward<ForAll>(for_all)();
      return abort_.load() == 0;
    };
    return waiting(pulse_, comm::Activity::meeting, [&] { return barrier_.meet(once); });
  }

 private:
  comm::WorkerPulse& pulse_;
  const std::atomic<uint32_t>& abort_;
  comm::Barrier barrier_;
};

}  // namespace estrain::train
