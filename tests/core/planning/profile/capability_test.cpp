#include "core/planning/profile/capability.h"

#include <doctest/doctest.h>

#include <vector>

#include "now.h"

namespace estrain::profile {
namespace {

Estimate after(const std::vector<double>& measurements) {
  Estimate estimate;
  for (const double seconds : measurements) estimate.observe({seconds, 0}, kNow);
  return estimate;
}

TEST_CASE("the first measurements are averaged evenly, and the spread is how far they lie apart") {
  const Estimate estimate = after({10, 11, 9, 10});
  CHECK(estimate.seconds == doctest::Approx(10));
  CHECK(estimate.samples == 4);
  CHECK(estimate.measured == kNow);
  CHECK(estimate.spread > 0.03);
  CHECK(estimate.spread < 0.15);
  CHECK(after({10}).spread == 0);
}

TEST_CASE("old measurements fade: a slow drift is followed") {
  Estimate estimate = after(std::vector<double>(1000, 10.0));
  for (int i = 0; i < 30; ++i) estimate.observe({11.5, 0}, kNow);
  CHECK(estimate.seconds == doctest::Approx(11.5).epsilon(0.01));
}

TEST_CASE("a measurement that is off by more than the margin takes the estimate's place, noise does not") {
  Estimate estimate = after(std::vector<double>(20, 10.0));
  CHECK_FALSE(estimate.observe({12.4, 0}, kNow));
  CHECK(estimate.seconds < 10.5);
  CHECK(estimate.observe({30, 0.05}, kNow));
  CHECK(estimate.seconds == 30);
  CHECK(estimate.samples == 1);
  CHECK(estimate.spread == 0.05);
  CHECK(estimate.observe({10, 0}, kNow));
  CHECK(estimate.seconds == 10);
}

TEST_CASE("below the floor a deviation is noise, however small the estimate") {
  Estimate estimate = after({0.001});
  CHECK_FALSE(estimate.observe({0.003, 0}, kNow, 0.01));
  CHECK(estimate.seconds == doctest::Approx(0.002));
  CHECK(estimate.observe({0.009, 0}, kNow, 0.01));
}

TEST_CASE("one that was scaled gives way to the first measurement, without a word") {
  Estimate estimate = after(std::vector<double>(20, 10.0));
  estimate.scale(3);
  CHECK(estimate.seconds == doctest::Approx(30));
  CHECK(estimate.samples == 0);
  CHECK_FALSE(estimate.observe({11, 0}, kNow));
  CHECK(estimate.seconds == 11);
  CHECK(estimate.samples == 1);
}

TEST_CASE("an estimate nobody has confirmed for long is replaced") {
  Estimate estimate = after(std::vector<double>(20, 10.0));
  CHECK_FALSE(estimate.observe({11, 0}, kNow + Estimate::kStale + 1));
  CHECK(estimate.seconds == 11);
}

TEST_CASE("clock jumps: a time in the future counts as now, and back in time nothing is stale") {
  Estimate estimate = after({10, 10});
  CHECK(estimate.age(kNow + 60) == 60);
  CHECK(estimate.age(kNow - 1'000'000) == 0);
  CHECK_FALSE(estimate.observe({11, 0}, kNow - 10 * Estimate::kStale));
  CHECK(estimate.seconds == doctest::Approx(31.0 / 3));
  CHECK(estimate.measured == kNow - 10 * Estimate::kStale);
}

}  // namespace
}  // namespace estrain::profile
