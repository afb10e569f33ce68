#include "core/engine/train/shared/gradient_squares.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/core/engine/train/linear_training.h"

namespace estrain::train {
namespace {

constexpr const char* kSgd = "name = \"sgd\"\nlr = 0.1\n";
constexpr const char* kAdaptive = "[elastic]\nbatch = \"adaptive\"\n";

double squared_slopes(const Job& job) {
  double sum = 0;
  for (const torch::Tensor& parameter : job.network().parameters())
    sum += slope_of(parameter).to(torch::kDouble).square().sum().item<double>();
  return sum;
}

TEST_CASE("squared norms of all ESTs' gradients, and of their mean, whichever way the update goes") {
  for (const Way& way : kWays) {
    CAPTURE(std::string(way.name));
    LinearTraining training(kSgd, way, kAdaptive);
    for (int i = 0; i < 3; ++i) training.step(all);
    double of_ests = 0, of_mean = 0;
    for (size_t w = 0; w < way.ranges.size(); ++w) {
      CHECK(training.pulse(w).measured_steps.load() == 3);
      of_ests += training.pulse(w).est_squares.load();
      of_mean += training.pulse(w).mean_squares.load();
    }
    const double slopes = squared_slopes(training.job());
    CHECK(of_ests == doctest::Approx(3 * (1 + 4 + 9) * slopes));
    CHECK(of_mean == doctest::Approx(3 * 4 * slopes));  // the mean of 1, 2 and 3 is 2
  }
}

TEST_CASE("nothing is measured unless the job's batch may be changed") {
  LinearTraining training(kSgd, kWays[0]);
  training.step(all);
  CHECK(training.pulse(0).measured_steps.load() == 0);
  CHECK(training.pulse(0).est_squares.load() == 0);
}

TEST_CASE("a step that was aborted or is not finite leaves no trace") {
  spec::JobSpec spec;
  spec.elastic.batch = spec::BatchMode::adaptive;
  spec.job.ests = 2;
  comm::WorkerPulse pulse{};
  GradientSquares squares(spec, pulse);
  const std::vector<float> gradient = {3, 4};
  squares.begin_step();
  squares.add_est(gradient.data(), 2);
  squares.begin_step();
  squares.add_est(gradient.data(), 2);
  squares.add_mean(gradient.data(), 1);
  squares.end_step();
  CHECK(pulse.est_squares.load() == 25);
  CHECK(pulse.mean_squares.load() == 9);
  const float infinite = std::numeric_limits<float>::infinity();
  squares.begin_step();
  squares.add_est(&infinite, 1);
  squares.end_step();
  CHECK(pulse.measured_steps.load() == 1);
  CHECK(pulse.est_squares.load() == 25);
}

}  // namespace
}  // namespace estrain::train
