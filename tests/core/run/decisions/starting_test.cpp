#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("before the first stage a lost worker's place waits, and the first one may have to build the state") {
  JobAtWork job;
  job.state.phase = RunPhase::starting;
  for (Member& member : job.state.workers) member.ready = false;
  job.now.attached = false;
  job(WorkerReady{WorkerId(1)});
  job.lose(0);
  CHECK(job.state.workers[0].id == kNobody);
  job(Tick{});
  REQUIRE(job.find<StartWorkers>() != nullptr);
  CHECK(job.find<StartWorkers>()->workers[0].first);
  job(WorkerReady{WorkerId(2)});
  CHECK(job.find<BeginTraining>() != nullptr);
  CHECK(job.find<OpenStage>() != nullptr);
}

TEST_CASE(
    "before the first stage a suspect device is given up, but not the first one, nor the launcher's host's last") {
  const auto start = [] {
    JobAtWork job;
    job.state.phase = RunPhase::starting;
    for (Member& member : job.state.workers) member.ready = false;
    return job;
  };
  FaultVerdict host_lost = may_be_retried();
  host_lost.other_device = true;

  JobAtWork job = start();
  job.state.workers[1].device = {"cpu", {}, "h1"};
  job.state.held = devices({"cpu", "h1/cpu"});
  job(WorkerReady{WorkerId(0)});
  job.lose(1, host_lost);
  REQUIRE(job.state.workers.size() == 1);
  CHECK(job.state.workers[0].ests == EstRange{VirtualRank(0), VirtualRank(4)});
  CHECK(job.state.held == devices({"cpu"}));
  CHECK(job.find<Log>()->event == "device_lost");
  CHECK(job.find<OpenStage>() != nullptr);  // nobody else was waited for

  JobAtWork first = start();
  first.lose(0, host_lost);
  CHECK(first.state.workers.size() == 2);
  CHECK(first.state.workers[0].id == kNobody);

  JobAtWork own = start();
  own.state.host = "h1";
  own.state.workers[1].device = {"cpu", {}, "h1"};
  own.lose(1, host_lost);
  CHECK(own.state.workers.size() == 2);
}

}  // namespace
}  // namespace estrain::decisions
