#pragma once
// Measures the noise of a job's gradients: the gain from a larger batch. The estimate of McCandlish et al. (2018,
// appendix A.1) and of Pollux (OSDI'21, section 3.1), with ESTs as the replicas. With K ESTs of b samples each, g_i the
// gradient of an EST:
//
//   m = mean of |g_i|^2             |true gradient|^2 = (K |mean of g_i|^2 - m) / (K - 1)
//   variance of a sample's gradient, all elements together = b K (m - |mean of g_i|^2) / (K - 1)
//
// Both are averaged over steps (with a half-life of about 700) before the ratio is taken. Pure: the caller tells the
// sums of the workers. The meter outlives stages and changes of the batch.

#include <cstdint>
#include <optional>
#include <vector>

namespace estrain::launch {

struct GradientNoise {
  double square = 0;    // of the norm of the true gradient
  double variance = 0;  // of a sample's gradient
  int64_t steps = 0;    // measured
  // In samples: a batch of this size has as much signal as noise (the "noise scale").
  double scale() const { return variance / square; }
};

class NoiseMeter {
 public:
  static constexpr double kKept = 0.999;      // share of the averages which remains after a step
  static constexpr int64_t kFewSteps = 50;    // give no estimate
  static constexpr int64_t kWindowSteps = 8;  // the fewest steps taken in together

  // A worker's sums since the stage began (comm::WorkerPulse).
  struct Worker {
    bool is_here = true;  // on the launcher's host: each host updates with the whole mean
    int64_t steps = 0;
    double est_squares = 0, mean_squares = 0;
  };

  // Workers in rank order. `batch`: samples of an EST.
  void observe(int64_t ests, int64_t batch, const std::vector<Worker>& workers);
  // Returns nothing before kFewSteps, and where noise hides the gradient.
  std::optional<GradientNoise> noise() const;

 private:
  std::vector<Worker> mark_;
  double weight_ = 0, square_ = 0, variance_ = 0;  // sums in which older steps count less
  int64_t steps_ = 0;
};

}  // namespace estrain::launch
