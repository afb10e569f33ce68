#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("a resize warms up, pauses, changes the workers and hands over") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  CHECK(job.state.phase == RunPhase::warming);
  REQUIRE(job.find<StartWorkers>() != nullptr);
  CHECK(job.find<PauseStage>() == nullptr);
  job(WorkerReady{WorkerId(2)});
  CHECK(job.find<PauseStage>() != nullptr);
  job.leave({0, 1});
  const auto* close = job.find<CloseStage>();
  REQUIRE(close != nullptr);
  CHECK_FALSE(close->repair);
  job(StageClosed{.held = true});
  CHECK(job.find<OpenStage>() != nullptr);
  CHECK(job.find<TellSave>() != nullptr);
  CHECK(job.count<TellLeave>() == 2);
  CHECK(std::holds_alternative<HandOver>(job.actions.back().deed));

  job.state = after_handover(job.state);
  CHECK(job.state.leaving.size() == 2);
  job(Tick{});
  CHECK(job.find<ReportResize>() == nullptr);
  job.now.stage_started = 1;
  job(Tick{});
  REQUIRE(job.find<ReportResize>() != nullptr);
  CHECK(job.find<ReportResize>()->resize.client == 1);
}

TEST_CASE("a resize whose worker is lost is refused, and the job continues as it was") {
  JobAtWork job;
  job.ask({"cpu", "cpu", "cpu", "cpu"});
  job.lose(2);
  CHECK(job.state.phase == RunPhase::training);
  CHECK_FALSE(job.state.pending);
  CHECK(job.count<KillWorker>() == 1);  // the other new one
  REQUIRE(job.find<Refuse>() != nullptr);
  CHECK(job.find<Refuse>()->client == 1);
  CHECK(job.state.faults_at_step == 0);
}

TEST_CASE("a resize whose device is lost before its first step is refused: the job does not have it") {
  JobAtWork job;
  job.ask({"cpu", "cpu", "cpu", "cpu"});
  for (const int64_t id : {2, 3}) job(WorkerReady{WorkerId(id)});
  job.leave({0, 1});
  job(StageClosed{.held = true});
  job.state = after_handover(job.state);
  FaultVerdict verdict = may_be_retried();
  SUBCASE("it is given up") {
    verdict.other_device = true;
    job.lose(3, verdict);
    REQUIRE(job.find<Refuse>() != nullptr);
    CHECK(job.find<Refuse>()->client == 1);
    CHECK_FALSE(job.state.resize);
  }
  SUBCASE("it is replaced") {
    job.lose(3, verdict);
    CHECK(job.find<Refuse>() == nullptr);
    CHECK(job.state.resize);
  }
  SUBCASE("somebody waits for the devices that were given back") {
    job.state.resize->gives_back = true;
    verdict.other_device = true;
    job.lose(3, verdict);
    CHECK(job.find<Refuse>() == nullptr);
    REQUIRE(job.state.resize);
    CHECK(placement::parse_device(job.state.resize->after) == std::nullopt);  // a list
    CHECK(std::ranges::count(job.state.resize->after, ',') == 2);
  }
}

TEST_CASE("a second resize is refused while one is under way") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  job.ask({"cpu"}, 2);
  REQUIRE(job.actions.size() == 1);
  REQUIRE(job.find<Refuse>() != nullptr);
  CHECK(job.find<Refuse>()->client == 2);
}

TEST_CASE("a full disk gives a resize up while it is only wished for") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  job(NotWritten{"no room"});
  CHECK(job.state.phase == RunPhase::training);
  CHECK(job.find<Refuse>() != nullptr);
}

TEST_CASE("a full disk does not give up who stands in for a lost worker") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  job(WorkerReady{WorkerId(2)});
  job.lose(1);
  job(NotWritten{"no room"});
  CHECK(job.find<Refuse>() == nullptr);
  job.leave({0});
  REQUIRE(job.find<CloseStage>() != nullptr);
  job(StageClosed{.held = true});
  CHECK(job.state.phase == RunPhase::training);
}

TEST_CASE("workers that have left for a resize that is given up are told to go on") {
  JobAtWork job;
  job.ask({"cpu"});
  job.leave({0, 1});
  job(StageClosed{.held = false});
  job(NotWritten{"no room"});
  CHECK(job.find<OpenStage>() != nullptr);
  CHECK(job.state.phase == RunPhase::training);
  CHECK_FALSE(job.state.workers[0].left);
}

TEST_CASE("the devices do not change while there is no scribe to hand over") {
  JobAtWork job;
  job.ask({"cpu"});
  job(ScribeLost{may_be_retried(), false, "SIGKILL (signal 9)", "its log"});
  job(CannotStartScribe{may_be_retried(), Error(Fault::io, "none")});
  job.leave({0, 1});
  CHECK(job.find<CloseStage>() == nullptr);
  job.later(1.1);
  job(Tick{});
  CHECK(job.find<StartScribe>() != nullptr);
  CHECK(job.find<CloseStage>() != nullptr);
}

}  // namespace
}  // namespace estrain::decisions
