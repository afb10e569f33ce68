#include "core/run/launch/launcher/parts/speeds.h"

#include <doctest/doctest.h>

#include "tests/core/run/launch/launcher/parts/sample_run.h"

namespace estrain::launch {
namespace {

TEST_CASE("what is left of a job is never less than nothing, and a decision is on record with its step") {
  SampleRun sample;
  sample.train(10);
  Speeds speeds(sample.run->view(), {});
  sample.run->memory->commit().note_trained(Step(4));
  CHECK(speeds.course().steps_left == 6);
  speeds.note_decision("3 ESTs on cpu", "it is faster");
  const std::vector<Json> decisions = sample.logged("decision");
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0]["step"] == 4);
  CHECK(decisions[0]["what"] == "3 ESTs on cpu");
  CHECK(decisions[0]["reason"] == "it is faster");
  sample.run->memory->commit().note_trained(Step(12));
  CHECK(speeds.course().steps_left == 0);
}

TEST_CASE("nothing is measured while nobody trains, not even before the memory stands") {
  SampleRun sample;
  CHECK_FALSE(Speeds(sample.run->view(), {}).watch());
}

}  // namespace
}  // namespace estrain::launch
