#pragma once
// A Meeting of the stage's workers uses shared memory. The launcher can see the waiting workers.

#include <atomic>
#include <utility>

#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/job/waiting.h"
#include "core/state/comm/meetings/barrier.h"

namespace estrain::train {

class Meeting {
 public:
  Meeting(comm::BarrierWords& words, comm::JobMemory& memory, const StageOrder& order);

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
