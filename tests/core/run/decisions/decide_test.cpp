#include "core/run/decisions/decide.h"

#include <doctest/doctest.h>

#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("a lost worker is replaced, and the others keep their shares") {
  JobAtWork job;
  job.lose(1);
  CHECK(job.state.phase == Phase::recovering);
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
  CHECK(job.state.phase == Phase::training);
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
  CHECK(job.state.phase == Phase::recovering);
  job.lose(2);  // its replacement
  CHECK(job.state.phase == Phase::over);
  REQUIRE(job.state.failure);
  CHECK(job.state.failure->message() == "fault 2 at step 7: it ended");
  CHECK(job.state.failed == WorkerId(2));
}

TEST_CASE("what cannot be helped by trying again ends the run at once") {
  JobAtWork job;
  job.lose(1, Verdict{});
  CHECK(job.state.phase == Phase::over);
  REQUIRE(job.state.failure);
  CHECK(job.state.failure->message() == "it ended");
}

TEST_CASE("workers lost from one stage count as one fault") {
  JobAtWork job(1);
  job.lose(1);
  job.lose(0);
  CHECK(job.state.phase == Phase::recovering);
  CHECK(job.state.faults_at_step == 1);
}

TEST_CASE("a suspect device is given up") {
  JobAtWork job;
  job.state.held = devices({"cpu", "cpu:avx2"});
  job.state.workers[1].device.kind = "cpu:avx2";
  Verdict broken = may_be_retried();
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
    Verdict broken = may_be_retried();
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

TEST_CASE("a resize warms up, pauses, changes the workers and hands over") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  CHECK(job.state.phase == Phase::warming);
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
  CHECK(job.find<SaveState>() != nullptr);
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

TEST_CASE("a resize whose worker is lost is refused, and the job goes on as it was") {
  JobAtWork job;
  job.ask({"cpu", "cpu", "cpu", "cpu"});
  job.lose(2);
  CHECK(job.state.phase == Phase::training);
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
  Verdict verdict = may_be_retried();
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
  CHECK(job.state.phase == Phase::training);
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
  CHECK(job.state.phase == Phase::training);
}

TEST_CASE("workers that have left for a resize that is given up are told to go on") {
  JobAtWork job;
  job.ask({"cpu"});
  job.leave({0, 1});
  job(StageClosed{.held = false});
  job(NotWritten{"no room"});
  CHECK(job.find<OpenStage>() != nullptr);
  CHECK(job.state.phase == Phase::training);
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

TEST_CASE("a stop waits for the step under way, until the grace is over or somebody insists") {
  JobAtWork job;
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK(job.find<PauseStage>() != nullptr);
  CHECK(job.state.phase == Phase::pausing);
  SUBCASE("the workers leave") {
    job.leave({0, 1});
    CHECK(job.state.phase == Phase::over);
    CHECK_FALSE(job.state.stop_at_once);
  }
  SUBCASE("the grace is over") {
    job.later(9.9);
    job(Tick{});
    CHECK(job.state.phase == Phase::pausing);
    job.later(0.2);
    job(Tick{});
    CHECK(job.state.stop_at_once);
  }
  SUBCASE("somebody asks again") {
    job(StopAsked{.why = "asked to", .client = 3});
    CHECK(job.state.phase == Phase::pausing);
  }
  SUBCASE("somebody insists") {
    job(StopAsked{.why = "SIGTERM", .insists = true});
    CHECK(job.state.stop_at_once);
  }
}

ReclaimAsked reclaim(const std::vector<std::string>& wanted, double within, int64_t arrived_ns) {
  PendingChange shrunk;
  shrunk.devices = {Share{}};
  return {9, {list_of(devices(wanted)), within}, devices(wanted), arrived_ns, shrunk};
}

TEST_CASE("devices on which nobody works are given back at once") {
  JobAtWork job;
  job.state.held = devices({"cpu", "cpu", "cpu:avx2"});
  job(reclaim({"cpu:avx2"}, 5, job.now.ns));
  CHECK(job.find<Answer>() != nullptr);
  CHECK(job.state.held == devices({"cpu", "cpu"}));
}

TEST_CASE("a reclaim gives up the step at half its time, and kills who is left at four fifths") {
  JobAtWork job;
  job(reclaim({"cpu"}, 10, job.now.ns));
  CHECK(job.find<PauseStage>() != nullptr);
  job.later(4.9);
  job(Tick{});
  CHECK(job.find<AbortStage>() == nullptr);
  job.later(0.2);
  job(Tick{});
  CHECK(job.find<AbortStage>() != nullptr);
  job.leave({0});
  job.later(2.8);
  job(Tick{});
  CHECK(job.find<KillWorker>() == nullptr);
  job.later(0.2);
  job(Tick{});
  REQUIRE(job.find<KillWorker>() != nullptr);
  CHECK(job.find<KillWorker>()->worker == WorkerId(1));
  CHECK(job.find<CloseStage>() != nullptr);
}

TEST_CASE("a reclaim of all devices stops the job") {
  JobAtWork job;
  job(reclaim({"cpu", "cpu"}, 5, job.now.ns));
  CHECK(job.state.ending == Ending::stopped);
  CHECK(job.state.stop_clients == std::vector<ClientId>{9});
  CHECK(job.state.grace_seconds == 2.5);
}

TEST_CASE("what cannot be reclaimed is refused") {
  JobAtWork job;
  job(reclaim({"cpu:sse"}, 5, job.now.ns));
  REQUIRE(job.find<Refuse>() != nullptr);
  CHECK(job.find<Refuse>()->error.message() == "the job does not hold cpu:sse; it holds cpu,cpu");
}

TEST_CASE("an offer waits until the job has settled") {
  JobAtWork job;
  job.ask({"cpu:avx2"});
  job(OfferAsked{4, {"cpu:avx2"}});
  CHECK(job.actions.empty());
  job.lose(2);
  job(Tick{});
  REQUIRE(job.find<TakeUp>() != nullptr);
  CHECK(job.find<TakeUp>()->waiting.client == 4);
  CHECK(job.state.waiting.empty());
}

TEST_CASE("where all wait for each other, the step is begun again; the second time somebody is to blame") {
  JobAtWork job;
  job(AllWait{3});
  CHECK(job.find<AbortStage>() != nullptr);
  job.leave({0, 1});
  job(StageClosed{.held = true});
  CHECK(job.state.phase == Phase::training);
  job(AllWait{3});
  REQUIRE(job.find<EndHungWorker>() != nullptr);
  CHECK(job.find<EndHungWorker>()->worker == WorkerId(0));
}

TEST_CASE("a job on its way to an end saves, dismisses and closes") {
  JobAtWork job;
  for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
  CHECK(job.state.phase == Phase::over);
  job(EndBegan{});
  job(Tick{});
  REQUIRE(job.find<SaveLastState>() != nullptr);
  CHECK(job.find<SaveLastState>()->step == Step(7));
  job(SaveBegun{});
  job(Tick{});
  CHECK(job.actions.empty());
  job(Saved{Step(7)});
  CHECK(job.find<DismissAll>() != nullptr);
  CHECK(job.find<FinishFiles>() != nullptr);
  job(ScribeDone{});
  CHECK(job.state.closing == Closing::closed);
}

// A job that is over with steps that no checkpoint has: the disk is full.
struct FullDisk {
  JobAtWork job;

  explicit FullDisk(bool fails = false) {
    job.state.scribe.last_saved_step = 3;
    if (fails) {
      job.lose(0, Verdict{});
    } else {
      for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
    }
    job(EndBegan{});
    job(Tick{});
    REQUIRE(job.find<SaveLastState>() != nullptr);
    job(SaveBegun{});
    refuse();
  }
  void refuse() { job(NotSaved{Step(7), "no space left on device", true, 4096}); }
  std::string said() const { return job.find<Say>() == nullptr ? "" : job.find<Say>()->line; }
  bool waits() const { return job.state.closing == Closing::saving; }
};

TEST_CASE(
    "the last state waits for room: it is tried again, and the user told every ten seconds, with what is missing") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    FullDisk disk(fails);
    JobAtWork& job = disk.job;
    CHECK(disk.waits());
    CHECK(disk.said().find("the state of step 7 waits for room on the disk: no space left on device; ") == 0);
    CHECK(disk.said().find("(4096 bytes)") != std::string::npos);
    CHECK(disk.said().find("To give up steps 4 to 7: stop it twice") != std::string::npos);
    for (int tries = 0; tries < 20; ++tries) {
      job.later(0.5);
      job(Tick{});
      CHECK(job.find<SaveLastState>() == nullptr);
      CHECK(disk.said() == "");
      job.later(1.6);
      job(Tick{});
      REQUIRE(job.find<SaveLastState>() != nullptr);
      CHECK((disk.said() != "") == (tries % 5 == 4));
      job(SaveBegun{});
      job(Tick{});
      CHECK(job.find<SaveLastState>() == nullptr);
      disk.refuse();
      CHECK(disk.waits());
    }
    job.later(2.1);
    job(Tick{});
    job(SaveBegun{});
    job(Saved{Step(7)});
    CHECK(job.find<FinishFiles>() != nullptr);
  }
}

TEST_CASE("whoever stops a run that waits for room is told what would be lost; the next stop gives it up") {
  FullDisk disk;
  JobAtWork& job = disk.job;
  SUBCASE("by commands") {
    job(StopAsked{.why = "asked to", .client = 5});
    REQUIRE(job.find<Refuse>() != nullptr);
    CHECK(job.find<Refuse>()->client == 5);
    CHECK(job.find<Refuse>()->error.message().find("To give it up loses steps 4 to 7") != std::string::npos);
    CHECK(disk.waits());
    job(StopAsked{.why = "asked to", .client = 6});
    CHECK(job.state.stop_clients == std::vector<ClientId>{6});
  }
  SUBCASE("by signals") {
    job(StopAsked{.why = "SIGINT", .insists = true});
    CHECK(disk.said().find("To give it up loses steps 4 to 7. Stop once more to give it up") != std::string::npos);
    CHECK(disk.waits());
    job(StopAsked{.why = "SIGINT", .insists = true});
    CHECK(disk.said() == "given up, as asked: steps 4 to 7");
  }
  CHECK(job.state.closing == Closing::finishing_files);
  CHECK(job.find<FinishFiles>() != nullptr);
}

TEST_CASE("what the checkpoint that the launch went on from has is not waited for, nor what no room would help") {
  FullDisk disk;
  SUBCASE("another error") { disk.job(NotSaved{Step(7), "read-only file system"}); }
  SUBCASE("nothing is new") {
    disk.job.state.from_step = 7;
    disk.refuse();
  }
  CHECK(disk.job.state.closing == Closing::finishing_files);
}

TEST_CASE("a scribe that is lost while the state waits for room is replaced, and asked again") {
  FullDisk disk;
  JobAtWork& job = disk.job;
  job(ScribeLost{may_be_retried(), false, "SIGKILL (signal 9)", "its log"});
  CHECK(job.find<StartScribe>() != nullptr);
  CHECK(disk.waits());
  job.later(2.1);
  job(Tick{});
  CHECK(job.find<SaveLastState>() != nullptr);
}

TEST_CASE("records that have no room at the end: that is said, and the second stop has the scribe give them up") {
  JobAtWork job;
  for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
  job(EndBegan{});
  job(Saved{Step(7)});
  REQUIRE(job.find<FinishFiles>() != nullptr);
  job.now.no_room = "metrics.jsonl: no space left";
  job.later(10.1);
  job(Tick{});
  REQUIRE(job.find<Say>() != nullptr);
  CHECK(job.find<Say>()->line.find("the run's last records wait for room on the disk: metrics.jsonl: no space left") ==
        0);
  job(Tick{});
  CHECK(job.actions.empty());
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK(job.find<FinishFiles>() == nullptr);
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK(job.find<FinishFiles>() != nullptr);
}

TEST_CASE(
    "a stop of a job that is ending anyway is refused, or answered with the one before; a signal changes nothing") {
  JobAtWork job;
  job(StopAsked{.why = "asked to", .client = 3});
  job.leave({0, 1});
  job(EndBegan{});
  job(StopAsked{.why = "asked to", .client = 4});
  CHECK(job.state.stop_clients == std::vector<ClientId>{3, 4});
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK_FALSE(job.state.stop_at_once);
  JobAtWork done;
  for (const int64_t id : {0, 1}) done(WorkerLeft{WorkerId(id), true});
  done(EndBegan{});
  done(StopAsked{.why = "asked to", .client = 3});
  REQUIRE(done.find<Refuse>() != nullptr);
}

TEST_CASE("a stop while records have no room says so every ten seconds, as the step under way may wait with them") {
  JobAtWork job;
  job.state.grace_seconds = 30;
  job.now.no_room = "metrics.jsonl: no space left";
  job(StopAsked{.why = "SIGTERM", .insists = true});
  int64_t said = 0;
  for (int tenth = 0; tenth < 250; ++tenth) {
    job(Tick{});
    said += job.count<Say>();
    job.later(0.1);
  }
  CHECK(said == 3);
  job.now.no_room = "";
  job.later(4);
  job(Tick{});
  CHECK(job.count<Say>() == 0);
}

TEST_CASE("a scribe that is lost while it finishes the files is told again when it is back") {
  JobAtWork job;
  for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
  job(EndBegan{});
  job(Saved{Step(7)});
  REQUIRE(job.find<FinishFiles>() != nullptr);
  job(ScribeLost{may_be_retried(), false, "SIGKILL (signal 9)", "its log"});
  CHECK(job.find<StartScribe>() != nullptr);
  job(CannotStartScribe{may_be_retried(), Error(Fault::io, "none")});
  CHECK_FALSE(job.state.scribe.here);
  job.later(1.1);
  job(Tick{});
  CHECK(job.find<StartScribe>() != nullptr);
  job(Tick{});
  CHECK(job.find<FinishFiles>() != nullptr);
}

TEST_CASE("a scribe that ends again and again is given up") {
  JobAtWork job(0);
  for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
  job(EndBegan{});
  job(Tick{});
  const ScribeLost lost{may_be_retried(), false, "SIGKILL (signal 9)", "its log"};
  job(lost);
  CHECK(job.find<StartScribe>() != nullptr);  // restarted once, to save
  job(lost);
  CHECK(job.find<StartScribe>() == nullptr);
  CHECK(job.state.closing == Closing::closed);
  REQUIRE(job.state.failure);
  CHECK(job.state.failure->message() == "the scribe, which writes the run's files, ended with SIGKILL (signal 9)");
}

TEST_CASE("before the first stage a lost worker's place waits, and the first one may have to build the state") {
  JobAtWork job;
  job.state.phase = Phase::starting;
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
    job.state.phase = Phase::starting;
    for (Member& member : job.state.workers) member.ready = false;
    return job;
  };
  Verdict host_lost = may_be_retried();
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
  CHECK(job.state.phase == Phase::training);
}

}  // namespace
}  // namespace estrain::decisions
