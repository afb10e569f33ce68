#include "core/run/decisions/back_off.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/durations.h"

namespace estrain::decisions {
namespace {

// Start times, in seconds from 0, of something that always fails after running for a second.
std::vector<int64_t> starts(double first_seconds, int64_t faults) {
  int64_t now = 0;
  std::vector<int64_t> at = {0};
  for (int64_t fault = 1; fault <= faults; ++fault) {
    now += kSecond;
    now += back_off_ns(first_seconds, fault);
    at.push_back(now / kSecond);
  }
  return at;
}

TEST_CASE("the time between attempts doubles") {
  CHECK(starts(1, 6) == std::vector<int64_t>{0, 2, 5, 10, 19, 36, 69});
  CHECK(starts(5, 4) == std::vector<int64_t>{0, 6, 17, 38, 79});
}

TEST_CASE("what is tried again at once is so each time") {
  CHECK(starts(0, 3) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(back_off_ns(0, 1000) == 0);
}

TEST_CASE("an hour is the most") {
  CHECK(back_off_ns(1, 12) == 2048 * kSecond);
  CHECK(back_off_ns(1, 13) == 3600 * kSecond);
  CHECK(back_off_ns(1, std::numeric_limits<int64_t>::max()) == 3600 * kSecond);
  CHECK(back_off_ns(3600, 1) == 3600 * kSecond);
}

TEST_CASE("before any fault, and after the first, it is the first wait") {
  CHECK(back_off_ns(2, 0) == 2 * kSecond);
  CHECK(back_off_ns(2, 1) == 2 * kSecond);
}

}  // namespace
}  // namespace estrain::decisions
