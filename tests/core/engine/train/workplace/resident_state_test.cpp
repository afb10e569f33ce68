#include "core/engine/train/workplace/resident_state.h"

#include <doctest/doctest.h>

#include <chrono>

namespace estrain::train {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the state is saved every 2 s, less often where a save takes long, at least once a minute") {
  CHECK(time_between_saves(0ns) == 2s);
  CHECK(time_between_saves(40ms) == 2s);
  CHECK(time_between_saves(100ms) == 5s);
  CHECK(time_between_saves(1200ms) == 60s);
  CHECK(time_between_saves(100s) == 60s);
  CHECK(time_between_saves(std::chrono::nanoseconds::max()) == 60s);
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
