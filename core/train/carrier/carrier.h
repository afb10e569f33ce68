#pragma once
// Carries the update of a step from the gradients of a worker's mini-batches to a new state that is committed. Every
// carrier gives the same bits. A step goes through it in five parts:
//
//   begin    the copy that the step writes is free
//   fold     gradients of this worker's ESTs become partial sums, as they come (backward, take, keep_buffers)
//   pass     partial sums get to the worker that finishes the tree over their share of the parameters
//   finish   the tree, the clipping, the optimizer, the digests
//   commit   all workers meet; the last one to arrive publishes the step's record, and the new copy is the state
//
// The carriers: the memory that all workers of a host share (shared_carrier.h), the memory of one GPU
// (resident_update.h), that of several (exchanged_update.h). open_carrier() picks one.
//
// A step in which a loss, the norm of the gradients or a result of the update is not finite (train.nonfinite): the last
// one to arrive looks for the EST and the tensor (nonfinite_search.h). Policy "stop": the step is not committed; the
// worker of that EST throws, the others leave. "skip": it is committed with the parameters, slots, update counts and
// buffers of the step before; random streams, data and schedules go on. The verdict and its words are the same for
// every placement.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/train/job/stage_order.h"

namespace estrain::train {

struct Workplace;

class Carrier {
 public:
  virtual ~Carrier() = default;

  // Whether the step that follows the newest one is this carrier's. False: the stage goes on with another one.
  virtual bool carries_on() const = 0;

  // The step that follows `step`, whose state the model reads. Waits until the copy that it writes is free. False on
  // abort.
  virtual bool begin_step(Step step) = 0;

  // The backward pass of an EST's mini-batch. `arrival`: the EST's place in the worker's range.
  virtual void backward(size_t arrival, const torch::Tensor& loss) = 0;
  // The gradients of such a pass, one per parameter (undefined: not reached), where the pass was replayed
  // (device/captured_passes.h).
  virtual void take(size_t arrival, const std::vector<torch::Tensor>& gradients) = 0;
  // Makes the buffers as virtual rank 0 has left them those of the new state.
  virtual void keep_buffers() = 0;

  // After the worker's last mini-batch: waits until the device is through with them, unless finish() waits for nothing
  // else. Returns how much of that it waited for other workers, ns.
  virtual int64_t pass() = 0;
  // Whether a device may be given the first mini-batch of the next step between pass() and finish().
  virtual bool begins_ahead() const { return false; }
  // Does the rest of the update; the step's record is complete then. False on abort.
  virtual bool finish() = 0;

  // False: the stage was aborted, or the step is not to be committed. Throws Fault::infeasible "step t: the gradient of
  // … is NaN (virtual rank r; …)" where that ends the job and the EST is this worker's.
  virtual bool commit() = 0;
};

// For the stage's next steps. Sets place.resident, and place.exchange where GPUs pass data to each other. Null on
// abort.
std::unique_ptr<Carrier> open_carrier(Workplace& place, const StageOrder& order);

}  // namespace estrain::train
