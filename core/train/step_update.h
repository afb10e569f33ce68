#pragma once
// From the gradients of a step's mini-batches to its new state: sums, clips, updates, digests. Three ways, the same
// bits: in the memory that all workers share (shared_update.h), in the memory of one GPU (resident_update.h), in that
// of several (exchanged_update.h).
//
// Where a result is NaN or infinite, or the norm is, the step's record is marked as suspect. What then becomes of the
// step is decided where it would be committed (stage.h).

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace estrain::train {

class StepUpdate {
 public:
  virtual ~StepUpdate() = default;

  // The step that follows `step`, whose state the model reads.
  virtual void begin_step(int64_t step) = 0;
  // The backward pass of an EST's mini-batch, `arrival`: its place in the worker's range. Gradients are folded into
  // partial sums, or updates made, as they come.
  virtual void backward(size_t arrival, const torch::Tensor& loss) = 0;
  // Its gradients, one per parameter (undefined: not reached), where the pass was replayed (device/captured_passes.h).
  virtual void take(size_t arrival, const std::vector<torch::Tensor>& gradients) = 0;
  // The buffers as virtual rank 0 has left them are those of the new state.
  virtual void keep_buffers() = 0;
  // After the worker's last mini-batch: waits until the device is through with them, unless combine() waits for nothing
  // else. Returns how much of that it waited for other workers, ns.
  virtual int64_t complete() = 0;
  // What is left to do together with the other workers; the step's record is complete then. False on abort.
  virtual bool combine() = 0;
};

}  // namespace estrain::train
