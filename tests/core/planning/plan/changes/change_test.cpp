#include "core/planning/plan/changes/change.h"

#include <doctest/doctest.h>

namespace estrain::plan {
namespace {

TEST_CASE("a change is worth it if it saves twice its cost in the steps left") {
  CHECK(weigh({1.0, 0.5, 100, 24}).worth);
  CHECK(weigh({1.0, 0.5, 100, 25}).worth);
  const ChangeWorth dear = weigh({1.0, 0.5, 100, 25.1});
  CHECK_FALSE(dear.worth);
  CHECK(dear.gain_seconds == doctest::Approx(50));
  CHECK(dear.reason == "it would save 50.0 s in the 100 steps left, and cost 25.1 s");
  CHECK(weigh({1.0, 0.5, 100, 24}).reason == "steps get shorter by 50 %: 50.0 s less in the 100 steps left");
}

TEST_CASE("a job about to end does not change any more") {
  CHECK(weigh({1.0, 0.5, 5, 1}).worth);
  CHECK_FALSE(weigh({1.0, 0.5, 3, 1}).worth);
  CHECK_FALSE(weigh({1.0, 0.5, 0, 0.001}).worth);
  CHECK_FALSE(weigh({1.0, 0.5, -1, 0.001}).worth);
}

TEST_CASE("a gain within what estimates are good for is none, be it that changing costs nothing") {
  CHECK(weigh({1.0, 0.969, 1'000'000, 0}).worth);
  CHECK_FALSE(weigh({1.0, 0.971, 1'000'000, 0}).worth);
  CHECK(weigh({1.0, 0.971, 1'000'000, 0}).reason == "steps would get shorter by 2.9 % only");
  CHECK_FALSE(weigh({1.0, 1.5, 1'000'000, 0}).worth);
  CHECK(weigh({1.0, 1.5, 1'000'000, 0}).reason == "steps would not get shorter");
  CHECK_FALSE(weigh({0, 0, 1'000'000, 0}).worth);
}

TEST_CASE("shares move after four windows in a row that promise a tenth, not before") {
  GainWatch watch(GainWatch::kToMove);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) CHECK_FALSE(watch.observe(1.0, 0.8));
    CHECK(watch.observe(1.0, 0.8));
  }
  for (int i = 0; i < 100; ++i) CHECK_FALSE(watch.observe(1.0, 0.91));
}

TEST_CASE("other devices are used only after five times as many") {
  GainWatch watch(GainWatch::kToResize);
  for (int i = 0; i < 19; ++i) CHECK_FALSE(watch.observe(1.0, 0.5));
  CHECK(watch.observe(1.0, 0.5));
}

TEST_CASE("a window now and then that does not show the gain only delays") {
  GainWatch watch(GainWatch::kToReturn);
  int windows = 0;
  bool moves = false;
  while (!moves && windows < 100) moves = watch.observe(1.0, ++windows % 10 == 0 ? 0.95 : 0.8);
  CHECK(moves);
  CHECK(windows > GainWatch::kToReturn);
  CHECK(windows < 2 * GainWatch::kToReturn);
}

TEST_CASE("noise that comes and goes moves nothing") {
  GainWatch watch(GainWatch::kToMove);
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(watch.observe(1.0, 0.5));
    CHECK_FALSE(watch.observe(1.0, 0.5));
    CHECK_FALSE(watch.observe(1.0, 0.5));
    CHECK_FALSE(watch.observe(1.0, 1.0));
  }
  for (int i = 0; i < 3; ++i) CHECK_FALSE(watch.observe(1.0, 0.5));
  watch.reset();
  for (int i = 0; i < 3; ++i) CHECK_FALSE(watch.observe(1.0, 0.5));
  CHECK_FALSE(watch.observe(0, 0));
}

}  // namespace
}  // namespace estrain::plan
