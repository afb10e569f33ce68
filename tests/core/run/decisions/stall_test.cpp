#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("where all wait for each other, the step is begun again; the second time somebody is to blame") {
  JobAtWork job;
  job(AllWait{3});
  CHECK(job.find<AbortStage>() != nullptr);
  job.leave({0, 1});
  job(StageClosed{.held = true});
  CHECK(job.state.phase == RunPhase::training);
  job(AllWait{3});
  REQUIRE(job.find<EndHungWorker>() != nullptr);
  CHECK(job.find<EndHungWorker>()->worker == WorkerId(0));
}

}  // namespace
}  // namespace estrain::decisions
