#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

// Start times, in seconds from 0, of something that always fails after running for a second.
std::vector<int64_t> starts(double first_seconds, int64_t faults) {
  Nanoseconds now{};
  std::vector<int64_t> at = {0};
  for (int64_t fault = 1; fault <= faults; ++fault) {
    now += 1s;
    now += back_off(first_seconds, fault);
    at.push_back(now / 1s);
  }
  return at;
}

TEST_CASE("the time between attempts doubles") {
  CHECK(starts(1, 6) == std::vector<int64_t>{0, 2, 5, 10, 19, 36, 69});
  CHECK(starts(5, 4) == std::vector<int64_t>{0, 6, 17, 38, 79});
}

TEST_CASE("what is tried again at once is so each time") {
  CHECK(starts(0, 3) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(back_off(0, 1000) == 0ns);
}

TEST_CASE("an hour is the most") {
  CHECK(back_off(1, 12) == 2048s);
  CHECK(back_off(1, 13) == 3600s);
  CHECK(back_off(1, std::numeric_limits<int64_t>::max()) == 3600s);
  CHECK(back_off(3600, 1) == 3600s);
}

TEST_CASE("before any fault, and after the first, it is the first wait") {
  CHECK(back_off(2, 0) == 2s);
  CHECK(back_off(2, 1) == 2s);
}

}  // namespace
}  // namespace estrain::decisions
