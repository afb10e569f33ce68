#include <doctest/doctest.h>

#include "core/planning/profile/capability.h"

namespace estrain::profile {
namespace {

// 10 ms alone, 2 ms of update.
Capability known() {
  Capability capability;
  capability.observe_mini_batch(1, {0.010, 0.1}, 1000);
  capability.update.emplace();
  capability.update->observe({0.002, 0}, 1000);
  return capability;
}

TEST_CASE("a time among several workers that crowding cannot explain shows that the time alone is wrong") {
  for (const double measured : {0.030, 0.005}) {
    CAPTURE(measured);
    Capability capability = known();
    capability.mend(2, measured, 1);
    CHECK(capability.base()->estimate.seconds == doctest::Approx(measured));
    CHECK(capability.base()->estimate.samples == 0);
    CHECK(capability.update->seconds == doctest::Approx(0.002 * measured / 0.010));
  }
}

TEST_CASE("crowding, and cores that workers share, explain a time") {
  Capability capability = known();
  capability.mend(2, 0.019, 1);
  capability.mend(2, 0.008, 1);
  capability.mend(4, 0.035, 2);  // two workers a core
  CHECK(capability.base()->estimate.seconds == 0.010);
  capability.observe_mini_batch(2, {0.012, 0}, 2000);
  capability.mend(2, 0.090, 1);  // measured with the same number: observing is enough
  CHECK(capability.base()->estimate.seconds == 0.010);
  Capability nothing;
  nothing.mend(2, 0.030, 1);
  CHECK_FALSE(nothing.measured());
}

}  // namespace
}  // namespace estrain::profile
