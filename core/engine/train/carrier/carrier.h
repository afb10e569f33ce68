#pragma once
// Turns the gradients of a worker's mini-batches into a new committed state. Every carrier gives the same bits. A step
// has five parts:
//
//   begin    wait until the copy for the step's result is free
//   fold     add gradients of this worker's ESTs to partial sums as they are ready (backward, take, keep_buffers)
//   pass     send partial sums to the worker that finishes the tree for their share of the parameters
//   finish   tree, clipping, optimizer, digests
//   commit   all workers meet; the last to arrive publishes the step's record, and the new copy becomes the state
//
// Carriers: in the memory shared by all workers of a host (shared_carrier.h), in the memory of one GPU
// (resident_update.h) or of several GPUs (exchanged_update.h). open_carrier() picks a carrier.
//
// If a loss, the norm of the gradients or a result of the update is not finite, the last worker to arrive finds the EST
// and the tensor (shared_carrier.h). With train.nonfinite = "stop" the step is not committed: the EST's worker
// throws, the other workers leave. With "skip" the step is committed with the parameters, slots, update counts and
// buffers of the step before; random streams, data and schedules advance. The error is the same for every placement.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/train/job/stage_order.h"

namespace estrain::train {

class TrainingJob;
struct Workplace;

class Carrier {
 public:
  virtual ~Carrier() = default;

  // Returns whether this carrier does the next step. False: the stage continues with another carrier.
  virtual bool carries_on() const = 0;

  // Begins the step after `step`; the model reads the state of `step`. Waits until the copy to write is free. Returns
  // false on abort.
  virtual bool begin_step(Step step) = 0;

  // Runs the backward pass of an EST's mini-batch. `arrival`: the EST's place in the worker's range.
  virtual void backward(size_t arrival, const torch::Tensor& loss) = 0;
  // Takes the gradients of a replayed pass (engine/device/captured_passes.h), one per parameter (undefined: not
  // reached).
  virtual void take(size_t arrival, const std::vector<torch::Tensor>& gradients) = 0;
  // Stores the buffers into the new state, as virtual rank 0 left the buffers.
  virtual void keep_buffers() = 0;

  // Call this function after the worker's last mini-batch. Waits until the device has finished the mini-batches, unless
  // finish() waits for the device. Returns the time spent in waiting for other workers, ns.
  virtual int64_t pass() = 0;
  // Returns whether the device may start the next step's first mini-batch between pass() and finish().
  virtual bool begins_ahead() const { return false; }
  // Does the rest of the update and completes the step's record. Returns false on abort.
  virtual bool finish() = 0;

  // Returns false if the stage was aborted, or the step must not be committed. Throws Fault::infeasible "step t: the
  // gradient of … is NaN (virtual rank r; …)" if the NaN ends the job and the EST is this worker's.
  virtual bool commit() = 0;
};

// Returns whether the state of the job can lie in the memory of GPUs: buffers are whole 32-bit words, no averages of
// the weights are kept, ESTs do not count by weight, and no update takes a whole parameter: the host computes these.
bool may_be_resident(const TrainingJob& job);

// Opens the carrier of the stage's next steps. Sets place.resident, and place.exchange if GPUs pass data to each other.
// Returns null on abort.
std::unique_ptr<Carrier> open_carrier(Workplace& place, const StageOrder& order);

}  // namespace estrain::train
