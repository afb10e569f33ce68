#pragma once
// Tells the host's courier which gradients this worker has folded completely. So the courier sends these gradients to
// other hosts during the rest of the backward pass (core/state/comm/meetings/sum_progress.h).

#include <cstdint>
#include <vector>

#include "core/engine/train/state/model_places.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

class FoldProgress {
 public:
  // `worker`: this worker's number on the host. `bell`: the eventfd to wake the courier.
  FoldProgress(const ModelPlaces& places, comm::JobMemory& memory, WorkerRank worker, int bell);

  void begin_step();
  // Call this function when the worker's last EST has been folded into this parameter's sum.
  void note(size_t parameter);

 private:
  const ModelPlaces& places_;
  comm::SumProgress progress_;
  const WorkerRank worker_;
  const int bell_;
  std::vector<bool> folded_;
  size_t begin_ = 0;   // all parameters from begin_ on are folded
  size_t unsaid_ = 0;  // elements folded since the last ring of the bell
};

}  // namespace estrain::train
