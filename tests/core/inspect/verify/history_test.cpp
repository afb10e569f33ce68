#include "core/inspect/verify/history.h"

#include <doctest/doctest.h>

#include "tests/core/inspect/verify/fake_run.h"

namespace estrain::verify {
namespace {

TEST_CASE("stages are read from events, other and torn lines are left out") {
  const std::string events = stage_line(0, {"cpu", "cpu"}) +
                             "{\"event\":\"checkpoint\",\"step\":5}\nnonsense \"stage\"\n" + stage_line(100, {"cpu"}) +
                             "{\"event\":\"stage\",\"step\":2";
  const std::vector<RecordedStage> stages = stages_from_events(events);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0] == RecordedStage{Step(0), "cpu,cpu (2 workers)"});
  CHECK(stages[1] == RecordedStage{Step(100), "cpu (1 worker)"});
  CHECK(stages_from_list("[" + stage_line(3, {"cpu"}) + "]").front().from == Step(3));
  CHECK(stages_from_list("no list").empty());
}

TEST_CASE("a state belongs to the stage that computed it") {
  const std::vector<RecordedStage> stages =
      stages_from_events(stage_line(0, {"cpu", "cpu"}) + stage_line(100, {"cpu"}));
  CHECK(stage_of(stages, Step(0))->from == Step(0));
  CHECK(stage_of(stages, Step(100))->from == Step(0));
  CHECK(stage_of(stages, Step(101))->from == Step(100));
  CHECK(stage_of({}, Step(1)) == nullptr);
}

TEST_CASE("a run that went back repeats steps: what it ran on in the end counts") {
  const std::vector<RecordedStage> stages = stages_from_events(
      stage_line(0, {"cpu"}) + stage_line(120, {"cpu", "cpu"}) + stage_line(100, {"cpu", "cpu", "cpu"}));
  REQUIRE(stages.size() == 2);
  CHECK(stages[1].text == "cpu,cpu,cpu (3 workers)");
}

TEST_CASE("fields of any type are passed over") {
  const std::string damaged =
      "{\"event\":5,\"x\":\"stage\"}\n{\"event\":\"stage\",\"step\":\"3\"}\n"
      "{\"event\":\"stage\",\"step\":4,\"devices\":7,\"workers\":\"x\"}\n[\"stage\"]\n" +
      std::string(100'000, '[') + "\"stage\"\n";
  const std::vector<RecordedStage> stages = stages_from_events(damaged + stage_line(100, {"cpu"}));
  REQUIRE(stages.size() == 2);
  CHECK(stages[0] == RecordedStage{Step(4), " (0 workers)"});
  CHECK(stages[1].from == Step(100));
  CHECK(stages_from_list("[5,null,{\"event\":[]}," + stage_line(3, {"cpu"}) + "]").size() == 1);
}

TEST_CASE("a checkpoint says where it leaves stages out") {
  const std::vector<RecordedStage> stages =
      stages_from_list("[" + stage_line(0, {"cpu"}) + ",{\"event\":\"stages_left_out\",\"count\":50,\"step\":10}," +
                       stage_line(600, {"cpu", "cpu"}) + "]");
  REQUIRE(stages.size() == 3);
  CHECK(stage_of(stages, Step(300))->text == "one of 50 stages that the checkpoint leaves out");
  CHECK(stage_of(stages, Step(601))->text == "cpu,cpu (2 workers)");
}

}  // namespace
}  // namespace estrain::verify
