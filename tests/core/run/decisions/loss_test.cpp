#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("a lost worker is replaced, and the others keep their shares") {
  JobAtWork job;
  job.lose(1);
  CHECK(job.state.phase == RunPhase::recovering);
  CHECK(job.find<AbortStage>() != nullptr);
  const auto* start = job.find<StartWorkers>();
  REQUIRE(start != nullptr);
  REQUIRE(start->workers.size() == 1);
  CHECK(start->workers[0].id == WorkerId(2));

  job.leave({0});
  CHECK(job.actions.empty());  // the new one is not ready
  job(WorkerReady{WorkerId(2)});
  const auto* close = job.find<CloseStage>();
  REQUIRE(close != nullptr);
  CHECK(close->repair);
  CHECK(close->hold);

  job(StageClosed{.held = false});  // the scribe still reads an earlier state
  CHECK(job.actions.empty());
  job(Tick{});
  CHECK(job.find<CloseStage>() != nullptr);
  job(StageClosed{.held = true});
  CHECK(job.find<OpenStage>() != nullptr);
  CHECK(job.find<HandOver>() == nullptr);  // the devices are the same
  CHECK(job.state.phase == RunPhase::training);
  REQUIRE(job.state.workers.size() == 2);
  CHECK(job.state.workers[1].id == WorkerId(2));
  CHECK(job.state.workers[1].ests == EstRange{VirtualRank(2), VirtualRank(4)});

  job.now.trained = Step(8);
  job(Tick{});
  REQUIRE(job.find<ReportRecovery>() != nullptr);
  CHECK(job.find<ReportRecovery>()->loss.worker == WorkerId(1));
}

TEST_CASE("a fault more than may be survived at one step ends the run, and says which it was") {
  JobAtWork job(1);
  job.lose(1);
  CHECK(job.state.phase == RunPhase::recovering);
  job.lose(2);  // its replacement
  CHECK(job.state.phase == RunPhase::over);
  REQUIRE(job.state.failure);
  CHECK(job.state.failure->message() == "fault 2 at step 7: it ended");
  CHECK(job.state.failed == WorkerId(2));
}

TEST_CASE("what cannot be helped by trying again ends the run at once") {
  JobAtWork job;
  job.lose(1, FaultVerdict{});
  CHECK(job.state.phase == RunPhase::over);
  REQUIRE(job.state.failure);
  CHECK(job.state.failure->message() == "it ended");
}

TEST_CASE("workers lost from one stage count as one fault") {
  JobAtWork job(1);
  job.lose(1);
  job.lose(0);
  CHECK(job.state.phase == RunPhase::recovering);
  CHECK(job.state.faults_at_step == 1);
}

TEST_CASE("a suspect device is given up") {
  JobAtWork job;
  job.state.held = devices({"cpu", "cpu:avx2"});
  job.state.workers[1].device.kind = "cpu:avx2";
  FaultVerdict broken = may_be_retried();
  broken.other_device = true;
  job.lose(1, broken);
  CHECK(job.state.held == devices({"cpu"}));
  CHECK(job.find<StartWorkers>() == nullptr);
  job.leave({0});
  job(StageClosed{.held = true});
  REQUIRE(job.state.workers.size() == 1);
  CHECK(job.state.workers[0].ests.size() == 4);
}

TEST_CASE("over several hosts, the launcher's own does not give up its last device; another host does") {
  for (const bool own : {true, false}) {
    JobAtWork job;
    job.state.host = "a";
    job.state.held = devices({"a/cpu", "b/cpu"});
    job.state.workers[0].device = job.state.held[0];
    job.state.workers[1].device = job.state.held[1];
    FaultVerdict broken = may_be_retried();
    broken.other_device = true;
    job.lose(own ? 0 : 1, broken);
    CHECK(job.state.held == (own ? devices({"a/cpu", "b/cpu"}) : devices({"a/cpu"})));
  }
}

TEST_CASE("a worker that the kernel holds is kept until it is gone") {
  JobAtWork job;
  job.lose(1, may_be_retried(), true);
  CHECK(is_leaving(job.state, WorkerId(1)));
  job(WorkerEnded{WorkerId(1)});
  CHECK(find_member(job.state, WorkerId(1)) == nullptr);
}

}  // namespace
}  // namespace estrain::decisions
