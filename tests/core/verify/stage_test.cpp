#include "core/verify/stage.h"

#include <doctest/doctest.h>

#include "tests/core/verify/fake_run.h"

namespace estrain::verify {
namespace {

TEST_CASE("stages are read from events, other and torn lines are left out") {
  const std::string events = stage_line(0, {"cpu", "cpu"}) +
                             "{\"event\":\"checkpoint\",\"step\":5}\nnonsense \"stage\"\n" + stage_line(100, {"cpu"}) +
                             "{\"event\":\"stage\",\"step\":2";
  const std::vector<Stage> stages = stages_from_events(events);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0] == Stage{Step(0), "cpu,cpu (2 workers)"});
  CHECK(stages[1] == Stage{Step(100), "cpu (1 worker)"});
  CHECK(stages_from_list("[" + stage_line(3, {"cpu"}) + "]").front().from == Step(3));
  CHECK(stages_from_list("no list").empty());
}

TEST_CASE("a state belongs to the stage that computed it") {
  const std::vector<Stage> stages = stages_from_events(stage_line(0, {"cpu", "cpu"}) + stage_line(100, {"cpu"}));
  CHECK(stage_of(stages, Step(0))->from == Step(0));
  CHECK(stage_of(stages, Step(100))->from == Step(0));
  CHECK(stage_of(stages, Step(101))->from == Step(100));
  CHECK(stage_of({}, Step(1)) == nullptr);
}

TEST_CASE("a run that went back repeats steps: what it ran on in the end counts") {
  const std::vector<Stage> stages = stages_from_events(stage_line(0, {"cpu"}) + stage_line(120, {"cpu", "cpu"}) +
                                                       stage_line(100, {"cpu", "cpu", "cpu"}));
  REQUIRE(stages.size() == 2);
  CHECK(stages[1].text == "cpu,cpu,cpu (3 workers)");
}

}  // namespace
}  // namespace estrain::verify
