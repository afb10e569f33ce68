#pragma once
// The update of a step in the memory of the GPU that alone trains the job (resident_state.h): gradients are folded
// where they are, parameters updated behind the last EST's backward pass, and the host reads digests and losses only.
//
// Without clipping each parameter is updated when the last EST's gradient of it is there, into the new copy; the
// backward pass still reads the old one.

#include <vector>

#include "core/train/resident_optimizer.h"
#include "core/train/resident_sums.h"
#include "core/train/stage_order.h"
#include "core/train/step_update.h"

namespace estrain::train {

class ResidentUpdate : public StepUpdate {
 public:
  // `order` has this worker alone; place.resident is set.
  ResidentUpdate(Workplace& place, const StageOrder& order);

  void begin_step(int64_t step) override;
  void backward(size_t arrival, const torch::Tensor& loss) override;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) override;
  void keep_buffers() override;
  int64_t complete() override;
  bool combine() override { return true; }

 private:
  void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient);
  void clip_and_update();

  Workplace& place_;
  const bool clips_;
  ResidentSums sums_;
  ResidentOptimizer optimizer_;
  int64_t step_ = 0;
};

}  // namespace estrain::train
