#include "core/base/clock.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain {
namespace {

TEST_CASE("seconds that are more than a clock counts are as many as it can add") {
  CHECK(nanoseconds(0) == 0);
  CHECK(nanoseconds(1.5) == 1'500'000'000);
  CHECK(nanoseconds(-2) == -2'000'000'000);
  const int64_t most = INT64_C(1) << 62;
  for (const double huge : {1e12, 1e300, std::numeric_limits<double>::infinity()}) {
    CHECK(nanoseconds(huge) == most);
    CHECK(nanoseconds(-huge) == -most);
  }
  CHECK(nanoseconds(std::numeric_limits<double>::quiet_NaN()) == most);
  CHECK(monotonic_ns() + most > monotonic_ns());
}

}  // namespace
}  // namespace estrain
