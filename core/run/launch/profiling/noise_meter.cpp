#include "core/run/launch/profiling/noise_meter.h"

#include <algorithm>
#include <cmath>

namespace estrain::launch {

void NoiseMeter::observe(int64_t ests, int64_t batch, const std::vector<Worker>& workers) {
  bool same_stage = mark_.size() == workers.size();
  for (size_t i = 0; same_stage && i < workers.size(); ++i) same_stage = workers[i].steps >= mark_[i].steps;
  if (!same_stage) mark_ = workers;
  if (ests < 2 || workers.empty()) return;

  int64_t least = INT64_MAX;
  for (size_t i = 0; i < workers.size(); ++i) least = std::min(least, workers[i].steps - mark_[i].steps);
  if (least < kWindowSteps) return;
  double of_ests = 0, of_mean = 0;  // of a step
  for (size_t i = 0; i < workers.size(); ++i) {
    const auto steps = static_cast<double>(workers[i].steps - mark_[i].steps);
    of_ests += (workers[i].est_squares - mark_[i].est_squares) / steps;
    if (workers[i].is_here) of_mean += (workers[i].mean_squares - mark_[i].mean_squares) / steps;
  }
  mark_ = workers;

  const auto k = static_cast<double>(ests);
  const double mean_of_ests = of_ests / k;
  const double kept = std::pow(kKept, static_cast<double>(least));
  weight_ = kept * weight_ + 1 - kept;
  square_ = kept * square_ + (1 - kept) * (k * of_mean - mean_of_ests) / (k - 1);
  variance_ = kept * variance_ + (1 - kept) * static_cast<double>(batch) * k * (mean_of_ests - of_mean) / (k - 1);
  steps_ += least;
}

std::optional<GradientNoise> NoiseMeter::noise() const {
  if (steps_ < kFewSteps || !(square_ > 0)) return std::nullopt;
  return GradientNoise{square_ / weight_, std::max(0.0, variance_ / weight_), steps_};
}

}  // namespace estrain::launch
