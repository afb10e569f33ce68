#pragma once
// What updates in GPUs' memory have in common, of one (resident_update.h) and of several (exchanged_update.h):
// gradients are folded where they are, as the backward pass gives them.

#include <vector>

#include "core/train/resident_optimizer.h"
#include "core/train/resident_sums.h"
#include "core/train/stage_order.h"
#include "core/train/step_update.h"

namespace estrain::train {

class ResidentStep : public StepUpdate {
 public:
  // place.resident is set.
  ResidentStep(Workplace& place, const StageOrder& order);

  void begin_step(int64_t step) override;
  void backward(size_t arrival, const torch::Tensor& loss) final;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) final;
  void keep_buffers() final;

 protected:
  // A gradient (undefined: not reached) of the EST `arrival`.
  virtual void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) = 0;

  Workplace& place_;
  Job& job_;
  const bool clips_;
  ResidentSums sums_;
  ResidentOptimizer optimizer_;
  int64_t step_ = 0;  // whose successor is under way
};

}  // namespace estrain::train
