#include "core/planning/profile/stage_speed.h"

#include <doctest/doctest.h>

#include "sample_work.h"

namespace estrain::profile {
namespace {

Json event() {
  return Json::parse(R"({"time": "t", "event": "stage_speed", "stage": 1, "from_step": 3, "to_step": 13, "steps": 10,
    "seconds": 2.5, "exchange_seconds": 0.01, "workers": [
    {"worker": 0, "device": "cpu:avx2", "ests": 8, "mini_batches": 80, "computing_seconds": 1.6},
    {"worker": 3, "device": "cpu:sse", "ests": 4, "mini_batches": 41, "computing_seconds": 1.64}]})");
}

TEST_CASE("an event is read: times per mini-batch, and what of a step is exchange") {
  const auto stage = StageSpeed::from_event(event());
  REQUIRE(stage.has_value());
  CHECK(stage->step_seconds() == doctest::Approx(0.25));
  CHECK(stage->workers[0].mini_batch_seconds() == doctest::Approx(0.02));
  CHECK(stage->workers[1].mini_batch_seconds() == doctest::Approx(0.04));
  CHECK(stage->workers[1].kind == "cpu:sse");
  CHECK(stage->compute_seconds() == doctest::Approx(0.16));
  CHECK(stage->exchange_seconds() == doctest::Approx(0.09));
  CHECK(stage->partial_sums() == 2);  // 12 ESTs cut at 8
}

TEST_CASE("partial sums follow the ranges: 12 ESTs cut in the middle pass on twice as many") {
  CHECK(stage({{"cpu", 6, 0.1}, {"cpu", 6, 0.1}}, 0).partial_sums() == 4);
  CHECK(stage({{"cpu", 4, 0.1}, {"cpu", 8, 0.1}}, 0).partial_sums() == 3);
  CHECK(stage({{"cpu", 12, 0.1}}, 0).partial_sums() == 1);
}

TEST_CASE("an event that holds nothing to learn from is left alone") {
  const auto changed = [](auto&& change) {
    Json json = event();
    change(json);
    return StageSpeed::from_event(json).has_value();
  };
  CHECK(changed([](Json&) {}));
  CHECK_FALSE(changed([](Json& json) { json["event"] = "stage"; }));
  CHECK_FALSE(changed([](Json& json) { json["steps"] = 0; }));
  CHECK_FALSE(changed([](Json& json) { json["seconds"] = -1; }));
  CHECK_FALSE(changed([](Json& json) { json["seconds"] = "soon"; }));
  CHECK_FALSE(changed([](Json& json) { json["workers"] = Json::array(); }));
  CHECK_FALSE(changed([](Json& json) { json.erase("workers"); }));
  CHECK_FALSE(changed([](Json& json) { json["workers"][1]["mini_batches"] = 0; }));
  CHECK_FALSE(changed([](Json& json) { json["workers"][1]["computing_seconds"] = 0; }));
  CHECK_FALSE(StageSpeed::from_event(Json("text")).has_value());
}

TEST_CASE("who finishes late was crowded for a part of its time only") {
  // Alone 0.1 s a mini-batch; crowded 0.15 s. One does 2, the other 6: crowded for 0.3 s in which it does 2, then alone
  // for 4 more.
  const std::vector<double> crowding = {1, 1.5};
  const StageSpeed uneven = stage({{"cpu", 6, 0.7 / 6}, {"cpu", 2, 0.15}}, 0);
  const std::vector<double> factors = crowded_all_the_time(uneven, crowding);
  CHECK(uneven.workers[0].mini_batch_seconds() * factors[0] == doctest::Approx(0.15));
  CHECK(uneven.workers[1].mini_batch_seconds() * factors[1] == doctest::Approx(0.15));
}

TEST_CASE("three workers: each stretch by the number that is still at it") {
  // Work that takes 1, 2 and 3 s alone; three at a time run at 1/2, two at 1/1.5.
  const std::vector<double> crowding = {1, 1.5, 2};
  const double first = 2, second = first + 1.5, third = second + 1;
  const StageSpeed three = stage({{"cpu", 1, third}, {"cpu", 1, first}, {"cpu", 1, second}}, 0);
  const std::vector<double> factors = crowded_all_the_time(three, crowding);
  CHECK(factors[0] * third == doctest::Approx(2 * 3));
  CHECK(factors[1] * first == doctest::Approx(2 * 1));
  CHECK(factors[2] * second == doctest::Approx(2 * 2));
}

TEST_CASE("all busy alike, or nobody crowds: nothing is counted back") {
  for (const double factor : crowded_all_the_time(stage({{"cpu", 4, 0.1}, {"cpu", 4, 0.1}}, 0), {1, 1.5}))
    CHECK(factor == doctest::Approx(1));
  for (const double factor : crowded_all_the_time(stage({{"cpu", 7, 0.1}, {"cpu", 1, 0.1}}, 0), {}))
    CHECK(factor == doctest::Approx(1));
}

}  // namespace
}  // namespace estrain::profile
