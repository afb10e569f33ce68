#include "core/engine/train/workplace/resident_state.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "tests/durations.h"

namespace estrain::train {
namespace {

TEST_CASE("the state is saved every 2 s, less often where a save takes long, at least once a minute") {
  CHECK(ns_between_saves(0) == 2 * kSecond);
  CHECK(ns_between_saves(40 * kMs) == 2 * kSecond);
  CHECK(ns_between_saves(100 * kMs) == 5 * kSecond);
  CHECK(ns_between_saves(1200 * kMs) == 60 * kSecond);
  CHECK(ns_between_saves(100 * kSecond) == 60 * kSecond);
  CHECK(ns_between_saves(INT64_MAX) == 60 * kSecond);
}

TEST_CASE("regions of the state that only padding parts are copied as one") {
  const auto regions = joined({{640, 10}, {0, 100}, {128, 64}, {256, 64}, {320, 8}});
  REQUIRE(regions.size() == 3);
  CHECK(regions[0].offset == 0);
  CHECK(regions[0].bytes == 192);
  CHECK(regions[1].offset == 256);  // after 64 bytes of other data
  CHECK(regions[1].bytes == 72);
  CHECK(regions[2].offset == 640);
  CHECK(regions[2].bytes == 10);
  CHECK(joined({}).empty());
}

}  // namespace
}  // namespace estrain::train
