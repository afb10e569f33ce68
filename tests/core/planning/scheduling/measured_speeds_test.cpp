#include "core/planning/scheduling/measured_speeds.h"

#include <doctest/doctest.h>

namespace estrain::scheduling {
namespace {

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
