#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("a stop waits for the step under way, until the grace is over or somebody insists") {
  JobAtWork job;
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK(job.find<PauseStage>() != nullptr);
  CHECK(job.state.phase == RunPhase::pausing);
  SUBCASE("the workers leave") {
    job.leave({0, 1});
    CHECK(job.state.phase == RunPhase::over);
    CHECK_FALSE(job.state.stop_at_once);
  }
  SUBCASE("the grace is over") {
    job.later(9.9);
    job(Tick{});
    CHECK(job.state.phase == RunPhase::pausing);
    job.later(0.2);
    job(Tick{});
    CHECK(job.state.stop_at_once);
  }
  SUBCASE("somebody asks again") {
    job(StopAsked{.why = "asked to", .client = 3});
    CHECK(job.state.phase == RunPhase::pausing);
  }
  SUBCASE("somebody insists") {
    job(StopAsked{.why = "SIGTERM", .insists = true});
    CHECK(job.state.stop_at_once);
  }
}

}  // namespace
}  // namespace estrain::decisions
