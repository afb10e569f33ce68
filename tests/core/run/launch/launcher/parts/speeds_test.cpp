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

TEST_CASE("a slow worker is told at most once a minute, its recovery once for each time, the only worker never") {
  SlowNews news;
  const SpeedWatch::Speed slow{.worker = 1, .slow = true}, usual{.worker = 1}, other{.worker = 2, .slow = true};
  CHECK_FALSE(news.tells(usual, 2, kNoTime));
  CHECK(news.tells(slow, 2, kNoTime + 1s));
  CHECK(news.tells(usual, 2, kNoTime + 2s));
  CHECK_FALSE(news.tells(slow, 2, kNoTime + 60s));
  CHECK_FALSE(news.tells(usual, 2, kNoTime + 60s));
  CHECK(news.tells(other, 2, kNoTime + 60s));
  CHECK(news.tells(slow, 2, kNoTime + 61s));
  CHECK(news.tells(usual, 2, kNoTime + 62s));
  CHECK_FALSE(SlowNews().tells(slow, 1, kNoTime));  // no other worker is there
}

}  // namespace
}  // namespace estrain::launch
