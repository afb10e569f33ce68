#include "core/planning/scheduling/speed_model.h"

#include <doctest/doctest.h>

#include <cmath>

namespace estrain::scheduling {
namespace {

// 0.05 + 0.01 b on a device; exchange 0.1 + 0.02 (r - 2) on a host, 0.4 + 0.05 (r - 2) over several; gamma 2.
double truth(int64_t hosts, int64_t devices, double local) {
  const double compute = 0.05 + 0.01 * local, more = static_cast<double>(devices - 2);
  const double network = devices == 1 ? 0 : hosts > 1 ? 0.4 + 0.05 * more : 0.1 + 0.02 * more;
  return std::sqrt(compute * compute + network * network);
}

void observe(SpeedModel& model, int64_t hosts, int64_t devices, int64_t local) {
  const auto batch = static_cast<double>(local);
  model.observe({hosts, devices, local}, 0.05 + 0.01 * batch, truth(hosts, devices, batch));
}

TEST_CASE("a model of what was seen foretells what was not") {
  SpeedModel model;
  CHECK(model.is_empty());
  for (const int64_t local : {4, 8, 16, 32}) {
    observe(model, 1, 1, local);
    observe(model, 1, 2, local);
    observe(model, 1, 4, local);
    observe(model, 2, 4, local);
    observe(model, 2, 8, local);
  }
  CHECK(model.most_devices() == 8);
  CHECK(model.compute_seconds(24) == doctest::Approx(0.29).epsilon(0.02));
  CHECK(model.step_seconds(1, 3, 24) == doctest::Approx(truth(1, 3, 24)).epsilon(0.05));
  CHECK(model.step_seconds(4, 16, 24) == doctest::Approx(truth(4, 16, 24)).epsilon(0.1));
}

TEST_CASE("what has not been seen is taken to be as good as can be") {
  SpeedModel model;
  observe(model, 1, 1, 8);
  CHECK(model.step_seconds(1, 1, 8) == doctest::Approx(0.13).epsilon(0.01));
  CHECK(model.step_seconds(4, 16, 8) == doctest::Approx(0.13).epsilon(0.01));  // no exchange
  CHECK(model.compute_seconds(16) == doctest::Approx(0.195).epsilon(0.01));    // half of it is constant
  observe(model, 1, 2, 8);
  CHECK(model.step_seconds(1, 2, 8) == doctest::Approx(truth(1, 2, 8)).epsilon(0.02));
  CHECK(model.step_seconds(1, 4, 8) == doctest::Approx(truth(1, 2, 8)).epsilon(0.02));
}

TEST_CASE("of a single batch half of the time is taken not to grow with it") {
  SpeedModel model;
  model.observe({1, 1, 2}, 3, 3);
  CHECK(model.compute_seconds(4) == doctest::Approx(4.5).epsilon(0.005));
}

TEST_CASE("the same points give the same model, and a point that is known changes nothing") {
  SpeedModel first, second;
  for (SpeedModel* model : {&first, &second}) {
    observe(*model, 1, 1, 8);
    observe(*model, 1, 4, 16);
  }
  CHECK(!second.observe({1, 4, 16}, 9, 9));
  CHECK(first.step_seconds(1, 3, 12) == second.step_seconds(1, 3, 12));
}

TEST_CASE("what was measured is foretold as it was, and on lines between") {
  MeasuredSpeeds speeds;
  CHECK(speeds.observe({1, 1, 8}, 0.1, 0.1));
  CHECK(speeds.observe({1, 1, 32}, 0.3, 0.3));
  // The exchange of three devices does not fit those of two and four: no model of this form has all of them.
  CHECK(speeds.observe({1, 2, 8}, 0.1, 0.15));
  CHECK(speeds.observe({1, 3, 8}, 0.1, 0.4));
  CHECK(speeds.observe({1, 4, 8}, 0.1, 0.2));
  CHECK(speeds.observe({1, 4, 32}, 0.3, 0.9));
  CHECK(speeds.step_seconds(1, 2, 8) == doctest::Approx(0.15));
  CHECK(speeds.step_seconds(1, 3, 8) == doctest::Approx(0.4));
  CHECK(speeds.step_seconds(1, 4, 8) == doctest::Approx(0.2));
  CHECK(speeds.step_seconds(1, 4, 32) == doctest::Approx(0.9));
  CHECK(speeds.model().step_seconds(1, 3, 8) != doctest::Approx(0.4).epsilon(0.05));
  const auto ratio = [&](double local) {
    return speeds.step_seconds(1, 4, local) / speeds.model().step_seconds(1, 4, local);
  };
  CHECK(ratio(20) == doctest::Approx((ratio(8) + ratio(32)) / 2));
  CHECK(ratio(64) == doctest::Approx(ratio(32)));
  CHECK(ratio(4) == doctest::Approx(ratio(8)));
  CHECK(speeds.step_seconds(2, 8, 8) == speeds.model().step_seconds(2, 8, 8));
}

TEST_CASE("what was foretold to within 1 % is no news, unless it is on more devices than before") {
  MeasuredSpeeds speeds;
  CHECK(speeds.observe({1, 1, 8}, 0.1, 0.1));
  CHECK(speeds.observe({1, 1, 32}, 0.3, 0.3));
  const double foretold = speeds.compute_seconds(16);
  CHECK_FALSE(speeds.observe({1, 1, 16}, foretold * 1.005, foretold * 1.005));
  CHECK(speeds.step_seconds(1, 1, 16) == doctest::Approx(foretold));
  CHECK(speeds.observe({1, 1, 16}, foretold * 1.05, foretold * 1.05));
  CHECK(speeds.step_seconds(1, 1, 16) == doctest::Approx(foretold * 1.05));
  CHECK_FALSE(speeds.observe({1, 1, 16}, 1, 1));  // known
  CHECK(speeds.model().most_devices() == 1);
  const double same = speeds.step_seconds(1, 2, 8);
  CHECK(speeds.observe({1, 2, 8}, speeds.compute_seconds(8), same));
  CHECK(speeds.model().most_devices() == 2);
}

}  // namespace
}  // namespace estrain::scheduling
