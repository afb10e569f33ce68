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

TEST_CASE("a moment is written as the present is") {
  CHECK(utc_timestamp(0) == "1970-01-01T00:00:00.000Z");
  CHECK(utc_timestamp(951782400.5) == "2000-02-29T00:00:00.500Z");
  CHECK(utc_timestamp(1200.001) == "1970-01-01T00:20:00.001Z");
  CHECK(utc_timestamp(59.9999996) == "1970-01-01T00:01:00.000Z");
  CHECK(utc_timestamp(static_cast<double>(unix_seconds())) <= utc_timestamp());
}

}  // namespace
}  // namespace estrain
