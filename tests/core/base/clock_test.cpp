#include "core/base/clock.h"

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>

namespace estrain {
namespace {

// A point of one clock is no point of another, and a number is neither.
static_assert(!std::is_constructible_v<MonotonicTime, WallTime> && !std::is_convertible_v<int64_t, Nanoseconds>);
static_assert(!std::is_convertible_v<Nanoseconds, MonotonicTime> && !std::is_convertible_v<double, Seconds>);

TEST_CASE("seconds that are more than a clock counts are as many as it can add") {
  CHECK(nanoseconds(0s) == 0ns);
  CHECK(nanoseconds(1.5s) == 1500ms);
  CHECK(nanoseconds(-2s) == -2s);
  const Nanoseconds most(INT64_C(1) << 62);
  for (const double huge : {1e12, 1e300, std::numeric_limits<double>::infinity()}) {
    CHECK(nanoseconds(Seconds(huge)) == most);
    CHECK(nanoseconds(Seconds(-huge)) == -most);
  }
  CHECK(nanoseconds(Seconds(std::numeric_limits<double>::quiet_NaN())) == most);
  CHECK(MonotonicClock::now() + most > MonotonicClock::now());
}

TEST_CASE("nanoseconds are written as seconds with the digits that files and messages have always had") {
  CHECK(seconds(3ns).count() == 3 * 1e-9);
  CHECK(seconds(123'456'789'012ns).count() == 123'456'789'012 * 1e-9);
  CHECK(seconds(3ns).count() != Seconds(3ns).count());  // std::chrono divides by 1e9
  CHECK(count_ns(monotonic_time(-5)) == -5);
}

TEST_CASE("a moment is written as the present is") {
  CHECK(utc_timestamp(0) == "1970-01-01T00:00:00.000Z");
  CHECK(utc_timestamp(951782400.5) == "2000-02-29T00:00:00.500Z");
  CHECK(utc_timestamp(1200.001) == "1970-01-01T00:20:00.001Z");
  for (const double moment : {0.0, 951782400.5, 1200.001, 4102444799.25})
    CHECK(seconds_of_utc(utc_timestamp(moment)) == moment);
  CHECK(seconds_of_utc("2020-04-01 00:13:21") == 1585700001);
  for (const char* wrong : {"", "7", "2020-04-01", "2020-02-30 00:00:00", "2020-04-01 24:00:00",
                            "2020-04-01 00:00:00 CET", "2020-04-01T00:00", "20-04-0100:00:00"})
    CHECK_MESSAGE(!seconds_of_utc(wrong), wrong);
  CHECK(utc_timestamp(59.9999996) == "1970-01-01T00:01:00.000Z");
  CHECK(utc_timestamp(static_cast<double>(unix_seconds())) <= utc_timestamp());
}

}  // namespace
}  // namespace estrain
