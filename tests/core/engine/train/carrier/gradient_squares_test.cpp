#include "core/engine/train/carrier/gradient_squares.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace estrain::train {
namespace {

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
  squares.begin_step();
  squares.add_est(gradient.data(), 2);
  squares.add(2, 3);  // of a device
  squares.end_step();
  CHECK(pulse.est_squares.load() == 52);
  CHECK(pulse.mean_squares.load() == 12);
  const float infinite = std::numeric_limits<float>::infinity();
  squares.begin_step();
  squares.add_est(&infinite, 1);
  squares.end_step();
  CHECK(pulse.measured_steps.load() == 2);
  CHECK(pulse.est_squares.load() == 52);
}

}  // namespace
}  // namespace estrain::train
