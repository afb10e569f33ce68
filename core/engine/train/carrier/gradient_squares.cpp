#include "core/engine/train/carrier/gradient_squares.h"

#include <cmath>

#include "kernels/portable/reduction.h"

namespace estrain::train {

double GradientSquares::squares(const float* values, size_t n) {
  float sum = 0;
  kernels::portable::sum_of_squares(&sum, values, {1, static_cast<int64_t>(n), 1}, {});
  return sum;
}

void GradientSquares::add(double of_ests, double of_mean) {
  of_ests_ += of_ests;
  of_mean_ += of_mean;
}

void GradientSquares::end_step() {
  if (measures_ && std::isfinite(of_ests_) && std::isfinite(of_mean_)) pulse_.measured(of_ests_, of_mean_);
}

}  // namespace estrain::train
