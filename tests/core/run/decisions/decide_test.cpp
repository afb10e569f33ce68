#include "core/run/decisions/decide.h"

#include <doctest/doctest.h>

#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("an event about somebody who is gone says nothing") {
  JobAtWork job;
  const WorkerId gone(77);
  for (const Event& event : {Event(WorkerReady{gone}), Event(WorkerLeft{gone, true}), Event(WorkerEnded{gone}),
                             Event(WorkerHangs{gone, "hangs"})}) {
    job(event);
    CHECK(job.actions.empty());
  }
  job.lose(77);
  CHECK(job.actions.empty());
  CHECK(job.state.phase == RunPhase::training);
}

}  // namespace
}  // namespace estrain::decisions
