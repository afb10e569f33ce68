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

// On two GPUs, asked for three. The new worker is ready.
struct GpusAtWork : JobAtWork {
  GpusAtWork() {
    state.gpus_exchange = true;
    state.held = devices({"cuda:0", "cuda:1"});
    for (size_t i = 0; i < 2; ++i) state.workers[i].device = state.held[i];
  }
  void ask_for_three() {
    ask({"cuda:0", "cuda:1", "cuda:2"});
    (*this)(WorkerReady{WorkerId(2)});
  }
  void prepare(std::initializer_list<int64_t> ids, int64_t ticket = 1, bool made = true) {
    for (const int64_t id : ids) (*this)(ExchangePrepared{WorkerId(id), ticket, made});
  }
  int64_t exchange_of_next_stage() {
    leave({0, 1});
    (*this)(StageClosed{.held = true});
    REQUIRE(find<OpenStage>() != nullptr);
    return find<OpenStage>()->exchange;
  }
};

TEST_CASE("GPUs of the next stage prepare their exchange before the pause, and the stage uses it") {
  GpusAtWork job;
  job.ask_for_three();
  REQUIRE(job.find<PrepareExchange>() != nullptr);
  CHECK(job.find<PrepareExchange>()->ticket == 1);
  CHECK(job.find<PrepareExchange>()->workers == std::vector{WorkerId(0), WorkerId(1), WorkerId(2)});
  CHECK(job.find<PauseStage>() == nullptr);
  job.prepare({0, 2});
  job.prepare({1}, 7);  // another exchange
  CHECK(job.state.phase == RunPhase::warming);
  job.prepare({1});
  CHECK(job.find<PauseStage>() != nullptr);
  CHECK(job.exchange_of_next_stage() == 1);

  job.state = after_handover(job.state);
  job.now.stage_started = 3;
  job(Tick{});
  REQUIRE(job.find<ReportResize>() != nullptr);
  job.ask({"cuda:1", "cuda:2"});  // without new workers
  REQUIRE(job.find<PrepareExchange>() != nullptr);
  CHECK(job.find<PrepareExchange>()->ticket == 2);
  CHECK(job.find<PrepareExchange>()->workers == std::vector{WorkerId(1), WorkerId(2)});
}

TEST_CASE("GPUs that cannot meet, or not in time, meet in the pause") {
  GpusAtWork job;
  job.ask_for_three();
  SUBCASE("one says so") { job.prepare({1}, 1, false); }
  SUBCASE("a minute is over") {
    job.prepare({0, 1});
    job.later(59);
    job(Tick{});
    CHECK(job.find<PauseStage>() == nullptr);
    job.later(2);
    job(Tick{});
  }
  CHECK(job.find<GiveUpExchange>() != nullptr);
  CHECK(job.find<PauseStage>() != nullptr);
  job.prepare({0, 1, 2});  // too late
  CHECK(job.exchange_of_next_stage() == 0);
}

TEST_CASE("an exchange is forgotten with the change that it is for, and after a loss") {
  GpusAtWork job;
  job.ask_for_three();
  SUBCASE("the new worker is lost while they meet") {
    job.prepare({0, 1});
    job.lose(2);
    CHECK(job.find<GiveUpExchange>() != nullptr);
    CHECK(job.state.phase == RunPhase::training);
    job.prepare({2});
    CHECK(job.find<PauseStage>() == nullptr);
  }
  SUBCASE("a worker of the stage is lost while they meet") {
    job.lose(1);
    CHECK(job.find<GiveUpExchange>() != nullptr);
    job.prepare({0, 1, 2});
    CHECK(job.state.phase == RunPhase::recovering);
    job(WorkerReady{WorkerId(3)});
    CHECK(job.exchange_of_next_stage() == 0);
  }
  SUBCASE("a worker is lost in the pause") {
    job.prepare({0, 1, 2});
    job.lose(2);
    CHECK(job.find<GiveUpExchange>() != nullptr);
    job(WorkerReady{WorkerId(3)});
    CHECK(job.exchange_of_next_stage() == 0);
  }
  SUBCASE("the job is stopped") {
    job(StopAsked{.why = "asked to"});
    CHECK(job.find<GiveUpExchange>() != nullptr);
  }
}

TEST_CASE("nothing is prepared where workers do not exchange, or where devices are wanted back in time") {
  GpusAtWork job;
  PendingChange change;
  std::vector<std::string> wanted = {"cuda:0", "cuda:1", "cuda:2"};
  SUBCASE("the job exchanges in host memory") { job.state.gpus_exchange = false; }
  SUBCASE("a CPU takes part") { wanted[2] = "cpu"; }
  SUBCASE("two workers have one GPU") { wanted[2] = "cuda:1"; }
  SUBCASE("one worker stays") { wanted = {"cuda:1"}; }
  SUBCASE("devices are wanted back") { change.give_back_by = job.now.time + 5s; }
  change.held = devices(wanted);
  change.devices = placement::evenly(change.held);
  job(ChangeAsked{change, {}});
  if (wanted.size() == 3) job(WorkerReady{WorkerId(2)});
  CHECK(job.find<PrepareExchange>() == nullptr);
  CHECK(job.find<PauseStage>() != nullptr);
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

// Asked by client 3 for mini-batches of 64 samples.
struct BatchAtWork : JobAtWork {
  const Json answer = {{"ok", true}, {"step", 7}, {"batch", 64}, {"lr_factor", 1.0}};
  BatchAtWork() {
    PendingChange change;
    change.client = 3;
    change.devices = devices_in_force(state);
    for (const Member& worker : state.workers) change.workers.push_back(worker.id);
    change.held = state.held;
    change.keeps_devices = true;
    change.batch = ChangeRequest{.batch = 64, .lr_factor = std::nullopt};
    (*this)(ChangeAsked{std::move(change), {}});
  }
  void carry_out() {
    leave({0, 1});
    (*this)(StageClosed{.held = true, .batch = answer});
  }
};

TEST_CASE("a batch changes in a pause, with the workers and shares of before, and a checkpoint") {
  BatchAtWork job;
  CHECK(job.find<PauseStage>() != nullptr);
  CHECK(job.count<StartWorkers>() == 0);
  job.leave({0, 1});
  const auto* close = job.find<CloseStage>();
  REQUIRE(close != nullptr);
  CHECK(close->hold);
  REQUIRE(close->batch);
  CHECK(close->batch->batch == 64);
  const std::vector<Member> before = job.state.workers;
  job(StageClosed{.held = false});  // the scribe copies another state
  CHECK(job.actions.empty());
  job(Tick{});
  REQUIRE(job.find<CloseStage>() != nullptr);
  job(StageClosed{.held = true, .batch = job.answer});
  CHECK(job.find<OpenStage>() != nullptr);
  REQUIRE(job.find<TellSave>() != nullptr);
  CHECK(job.find<TellSave>()->step == Step(7));
  CHECK(job.find<HandOver>() == nullptr);
  CHECK(job.count<TellLeave>() == 0);
  REQUIRE(job.state.workers.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(job.state.workers[i].id == before[i].id);
    CHECK((job.state.workers[i].ests == before[i].ests));
  }
  CHECK((job.state.held == devices({"cpu", "cpu"})));
  job.now.stage_started = 2;
  job(Tick{});
  REQUIRE(job.find<ReportResize>() != nullptr);
  CHECK(job.find<ReportResize>()->resize.changes_batch);
  CHECK(job.find<ReportResize>()->resize.client == 3);
  CHECK((job.find<ReportResize>()->resize.answer == job.answer));
}

TEST_CASE("a stop or a full disk in the pause gives a change of the batch up, unrecorded") {
  BatchAtWork job;
  SUBCASE("a stop") { job(StopAsked{.why = "asked to"}); }
  SUBCASE("a full disk") { job(NotWritten{"no room"}); }
  REQUIRE(job.find<Refuse>() != nullptr);
  CHECK(job.find<Refuse>()->client == 3);
  CHECK(job.find<Refuse>()->error.message().find("change of the batch given up") != std::string::npos);
  CHECK(job.find<Log>() == nullptr);
  job.leave({0, 1});
  CHECK(job.find<CloseStage>() == nullptr);
}

TEST_CASE("a worker lost in the pause for a change of the batch is replaced first, and the change is carried out") {
  BatchAtWork job;
  job.lose(1);
  job.leave({0});
  CHECK(job.find<CloseStage>() == nullptr);
  job(WorkerReady{WorkerId(2)});
  const auto* close = job.find<CloseStage>();
  REQUIRE(close != nullptr);
  CHECK(close->repair);
  CHECK(close->hold);
  CHECK(close->batch.has_value());
}

TEST_CASE("the client of a change of the batch hears of it though a device is lost or the job ends before a step") {
  BatchAtWork job;
  job.carry_out();
  SUBCASE("a device is lost for good") {
    FaultVerdict verdict = may_be_retried();
    verdict.other_device = true;
    job.lose(1, verdict);
    CHECK(job.find<Refuse>() == nullptr);
    REQUIRE(job.state.resize.has_value());
    CHECK((job.state.resize->answer == job.answer));
  }
  SUBCASE("the job ends") {
    for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
    job(EndBegan{});
    CHECK(job.find<Refuse>() == nullptr);
    REQUIRE(job.find<Answer>() != nullptr);
    CHECK(job.find<Answer>()->client == 3);
    CHECK((job.find<Answer>()->answer == job.answer));
  }
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
