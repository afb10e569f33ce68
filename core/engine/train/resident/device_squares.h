#pragma once
// The squared norms of a step's gradients in a GPU's memory, for GradientSquares. The device computes the norm of each
// gradient, and the host reads the norms once a step.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "core/engine/train/workplace/workplace.h"
#include "kernels/device_updates.h"

namespace estrain::train {

class DeviceSquares {
 public:
  // `ests`: of this worker. The functions below do nothing if the job is not measured (GradientSquares).
  DeviceSquares(Workplace& place, size_t ests);

  // A step has this number of calls of add_mean(). Call this function once, before the first step.
  void expect_parts(size_t parts);
  void begin_step();
  // Takes the gradient (undefined: absent) of EST number `arrival` of this worker. Holds the gradient until flush() at
  // most.
  void add_est(size_t arrival, size_t parameter, const at::Tensor& gradient);
  void flush();
  // Queues the norm of a part of the mean over all ESTs.
  void add_mean(const float* gradient, size_t n);
  // Queues reading the norms. ComputeDevice::finish() sets the sums.
  void read();

  double of_ests() const { return of_ests_; }
  double of_mean() const { return of_mean_; }

 private:
  void forget_pending();
  void take(const float* norms);

  Workplace& place_;
  const size_t parameters_, of_ests_count_;
  at::Tensor norms_;  // float32: [EST, parameter], then [part]; undefined: not measured
  size_t parts_ = 0;  // of the step under way
  // not yet in the device's queue
  std::vector<kernels::NormPiece> pending_;
  std::vector<at::Tensor> pending_gradients_;
  size_t pending_elements_ = 0;
  // of the last read
  double of_ests_ = 0, of_mean_ = 0;
};

}  // namespace estrain::train
