#pragma once
// Measures the squared norms of a step's gradients. The launcher computes the noise of the gradients from the norms
// (run/launch/profiling/noise_meter.h). Only jobs with elastic.batch = "adaptive" and more than one EST are measured.
// No bit of the training depends on the measurement.

#include <cstddef>

#include "core/job/spec/job_spec.h"
#include "core/state/comm/memory/pulse.h"

namespace estrain::train {

class GradientSquares {
 public:
  GradientSquares(const spec::JobSpec& spec, comm::WorkerPulse& pulse) : pulse_(pulse), measures_(are_wanted(spec)) {}

  static bool are_wanted(const spec::JobSpec& spec) {
    return spec.elastic.batch == spec::BatchMode::adaptive && spec.job.ests > 1;
  }
  bool measures() const { return measures_; }
  // Forgets an aborted step.
  void begin_step() { of_ests_ = of_mean_ = 0; }
  // Adds the gradient of one EST for a parameter, of n floats.
  void add_est(const float* gradient, size_t n) { of_ests_ += squares(gradient, n); }
  // Adds a part of the mean over all ESTs.
  void add_mean(const float* gradient, size_t n) { of_mean_ += squares(gradient, n); }
  // Adds squares that a device has summed.
  void add(double of_ests, double of_mean);
  // Call this function after this worker's last gradient of the step. A non-finite step does not count.
  void end_step();

 private:
  static double squares(const float* values, size_t n);

  comm::WorkerPulse& pulse_;
  const bool measures_;
  double of_ests_ = 0, of_mean_ = 0;
};

}  // namespace estrain::train
