#include <doctest/doctest.h>

#include "core/run/decisions/decide.h"
#include "tests/core/run/decisions/job_at_work.h"

namespace estrain::decisions {
namespace {

TEST_CASE("a job on its way to an end saves, dismisses and closes") {
  JobAtWork job;
  for (const int64_t id : {0, 1}) job(WorkerLeft{WorkerId(id), true});
  CHECK(job.state.phase == RunPhase::over);
  job(EndBegan{});
  job(Tick{});
  REQUIRE(job.find<SaveLastState>() != nullptr);
  CHECK(job.find<SaveLastState>()->step == Step(7));
  job(SaveBegun{});
  job(Tick{});
  CHECK(job.actions.empty());
  job(StateSaved{Step(7)});
  CHECK(job.find<DismissAll>() != nullptr);
  CHECK(job.find<TellFinish>() != nullptr);
  job(ScribeDone{});
  CHECK(job.state.closing == Closing::closed);
}

// A job that is over with steps that no checkpoint has: the disk is full.
struct FullDisk {
  JobAtWork job;

  explicit FullDisk(bool fails = false) {
    job.state.scribe.last_saved_step = 3;
    if (fails) {
      job.lose(0, FaultVerdict{});
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
    job(StateSaved{Step(7)});
    CHECK(job.find<TellFinish>() != nullptr);
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
  CHECK(job.find<TellFinish>() != nullptr);
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
  job(StateSaved{Step(7)});
  REQUIRE(job.find<TellFinish>() != nullptr);
  job.now.no_room = "metrics.jsonl: no space left";
  job.later(10.1);
  job(Tick{});
  REQUIRE(job.find<Say>() != nullptr);
  CHECK(job.find<Say>()->line.find("the run's last records wait for room on the disk: metrics.jsonl: no space left") ==
        0);
  job(Tick{});
  CHECK(job.actions.empty());
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK(job.find<TellFinish>() == nullptr);
  job(StopAsked{.why = "SIGTERM", .insists = true});
  CHECK(job.find<TellFinish>() != nullptr);
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
  job(StateSaved{Step(7)});
  REQUIRE(job.find<TellFinish>() != nullptr);
  job(ScribeLost{may_be_retried(), false, "SIGKILL (signal 9)", "its log"});
  CHECK(job.find<StartScribe>() != nullptr);
  job(CannotStartScribe{may_be_retried(), Error(Fault::io, "none")});
  CHECK_FALSE(job.state.scribe.here);
  job.later(1.1);
  job(Tick{});
  CHECK(job.find<StartScribe>() != nullptr);
  job(Tick{});
  CHECK(job.find<TellFinish>() != nullptr);
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

}  // namespace
}  // namespace estrain::decisions
