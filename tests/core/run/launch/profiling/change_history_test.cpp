#include "core/run/launch/profiling/change_history.h"

#include <doctest/doctest.h>

namespace estrain::launch {
namespace {

TEST_CASE("a change costs what changes of its sort have cost, and an assumption before the first") {
  ChangeHistory history;
  CHECK(history.change_seconds(false, 3.5) == 3.5);
  history.count_change(1.0, false);
  history.count_change(2.0, false);
  history.count_change(0.01, true);
  CHECK(history.change_seconds(false, 3.5) == doctest::Approx(1.5));
  CHECK(history.change_seconds(true, 3.5) == doctest::Approx(0.01));
}

TEST_CASE("the time line joins stage to stage and leaves out those without a step") {
  ChangeHistory history;
  history.stage_began = 10;
  history.end_stage(10, "cpu=8", 0);
  history.end_stage(25, "cpu=4,cpu=4", 0.5);
  history.end_stage(30, "cpu=8", 0);
  REQUIRE(history.stages().size() == 2);
  CHECK(history.stages()[0].from_step == 10);
  CHECK(history.stages()[0].to_step == 25);
  CHECK(history.stages()[1].from_step == 25);
  CHECK(history.stages()[1].devices == "cpu=8");
  for (int i = 1; i <= 100; ++i) history.end_stage(30 + i, "cpu=8", 0.1);
  CHECK(history.stages().size() == ChangeHistory::kStagesKept);
  CHECK(history.stages().back().to_step == 130);
}

TEST_CASE("all of it survives being handed over") {
  ChangeHistory before;
  for (int64_t step = 1; step <= 12; ++step) before.note({step, "what " + std::to_string(step), "why"});
  before.count_change(2.5, false);
  before.count_change(0.25, true);
  before.end_stage(7, "cpu:avx2=3,cpu=5", 0.125);
  before.estimated_step_seconds = 0.75;
  before.plan_reason = "cpu sets the pace";
  before.trial =
      GrowthTrial{placement::devices_from({"cpu", "cpu:avx2"}), {{Device{"cpu"}, 5}, {Device{"cpu:avx2"}, 3}}, 0.5};
  const ChangeHistory after = ChangeHistory::from_json(before.to_json());
  CHECK(after.to_json() == before.to_json());
  REQUIRE(after.decisions().size() == ChangeHistory::kDecisionsKept);
  CHECK(after.decisions().front().what == "what 3");
  CHECK(after.decisions().back().step == 12);
  CHECK(after.change_seconds(false, 9) == 2.5);
  CHECK(after.change_seconds(true, 9) == 0.25);
  CHECK(after.stage_began == 7);
  REQUIRE(after.trial);
  CHECK(after.trial->devices_before == before.trial->devices_before);
  CHECK(after.trial->held_before == before.trial->held_before);
  CHECK(after.trial->step_seconds_before == 0.5);
  CHECK_FALSE(ChangeHistory::from_json(ChangeHistory().to_json()).trial);
}

}  // namespace
}  // namespace estrain::launch
