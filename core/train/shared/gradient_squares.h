#pragma once
// The squared norms of a step's gradients, from which the launcher takes their noise
// (launch/profiling/noise_meter.h). Measured where the job's batch may be changed (elastic.batch = "adaptive") and
// there is more than one EST. A measurement: no bit of the training depends on it.

#include <cstddef>

#include "core/comm/memory/pulse.h"
#include "core/spec/job_spec.h"

namespace estrain::train {

class GradientSquares {
 public:
  GradientSquares(const spec::JobSpec& spec, comm::WorkerPulse& pulse)
      : pulse_(pulse), measures_(spec.elastic.batch == spec::BatchMode::adaptive && spec.job.ests > 1) {}

  bool measures() const { return measures_; }
  // Forgets a step that was aborted.
  void begin_step() { of_ests_ = of_mean_ = 0; }
  // The gradient of one EST for a parameter, of n floats.
  void add_est(const float* gradient, size_t n) { of_ests_ += squares(gradient, n); }
  // A part of the mean over all ESTs.
  void add_mean(const float* gradient, size_t n) { of_mean_ += squares(gradient, n); }
  // All of this worker's part of the step is in. A step that is not finite does not count.
  void end_step();

 private:
  static double squares(const float* values, size_t n);

  comm::WorkerPulse& pulse_;
  const bool measures_;
  double of_ests_ = 0, of_mean_ = 0;
};

}  // namespace estrain::train
