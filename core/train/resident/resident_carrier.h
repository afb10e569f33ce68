#pragma once
// The common part of the carriers in GPUs' memory: of one GPU (resident_update.h) and of several (exchanged_update.h).
// Gradients are folded where they are, as the backward pass gives them. A commit publishes the step's record only; the
// state follows now and then (resident_saving.h).
//
// Where a step is not finite all workers go back to the state in shared memory, and train the steps since once more
// with the carrier there. It finds what is not finite, and carries on until a few steps behind that one.

#include <vector>

#include "core/train/carrier/carrier.h"
#include "core/train/resident/resident_optimizer.h"
#include "core/train/resident/resident_saving.h"
#include "core/train/resident/resident_sums.h"

namespace estrain::train {

class ResidentCarrier : public Carrier {
 public:
  // place.resident is set.
  ResidentCarrier(Workplace& place, const StageOrder& order);

  bool carries_on() const final;
  bool begin_step(Step step) override;
  void backward(size_t arrival, const torch::Tensor& loss) final;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) final;
  void keep_buffers() final;
  bool commit() final;

 protected:
  // A gradient (undefined: not reached) of the EST `arrival`.
  virtual void fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) = 0;
  // The part of the state that this worker brings to shared memory.
  virtual SavedPart saved_part() const = 0;

  Workplace& place_;
  Job& job_;
  const bool clips_;
  ResidentSums sums_;
  ResidentOptimizer optimizer_;
  Step step_;  // whose successor is under way

 private:
  void commit_for_all();

  StepCommit commit_;
  Meeting finished_;
  ResidentSaving saving_;
};

}  // namespace estrain::train
