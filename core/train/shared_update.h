#pragma once
// The update of a step in the memory that all workers of the host share (updater.h), whatever their devices.

#include "core/comm/barrier.h"
#include "core/train/gradient_store.h"
#include "core/train/step_update.h"
#include "core/train/updater.h"
#include "core/train/workplace.h"

namespace estrain::train {

class SharedUpdate : public StepUpdate {
 public:
  // Meetings are reported to `pulse`; `spins`: core/comm/barrier.h.
  SharedUpdate(Workplace& place, const StageOrder& order, comm::WorkerPulse& pulse, int spins);

  void begin_step(int64_t step) override;
  void backward(size_t arrival, const torch::Tensor& loss) override;
  void take(size_t arrival, const std::vector<torch::Tensor>& gradients) override;
  void keep_buffers() override;
  int64_t complete() override;
  bool combine() override;

  // By one worker, once all are through, where some results are not finite: the first parameter that is not, or whose
  // slots are not.
  comm::Nonfinite first_nonfinite_result() { return updater_.first_nonfinite_result(); }
  // The norm that gradients are clipped by, where it was the norm.
  float total_norm() { return updater_.total_norm(); }
  // Parameters, slots, update counts and buffers of the new state become those of the old one, digests included.
  void leave_out();

 private:
  // Waits for all workers, and shows the launcher that it waits. False on abort.
  bool meet(comm::Barrier& barrier);
  est::GradientSink sink(size_t arrival);
  void record_buffers(std::byte* state);

  Workplace& place_;
  const size_t ests_;  // of this worker
  GradientStore gradients_;
  Updater updater_;
  comm::WorkerPulse& pulse_;
  comm::Barrier gathered_, summed_;
  int64_t step_ = 0;
};

}  // namespace estrain::train
