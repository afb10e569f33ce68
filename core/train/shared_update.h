#pragma once
// The update of a step in the memory that all workers of the host share (updater.h), whatever their devices.

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
  void complete() override { place_.device.finish(); }
  bool combine() override;
  comm::Nonfinite first_nonfinite_result() override { return updater_.first_nonfinite_result(); }
  float total_norm() override { return updater_.total_norm(); }
  void leave_out() override;

 private:
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
