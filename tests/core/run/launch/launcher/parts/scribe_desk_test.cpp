#include "core/run/launch/launcher/parts/scribe_desk.h"

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "tests/core/run/launch/launcher/parts/sample_run.h"

namespace estrain::launch {
namespace {

struct DeskedRun : SampleRun {
  Audits audits{run->view()};
  Losses losses{run->view(), processes(), {run->fault_table(), audits}};
  ScribeDesk desk{run->view(), processes(), losses};
  record::ScribesOwnChannel scribe;

  // The scribe's process is this script.
  explicit DeskedRun(const std::string& script = "exit 0") {
    train();
    auto [here, there] = comm::MessageSocket::pair();
    run->state.processes.scribe.socket = record::ScribeChannel(std::move(here));
    scribe = record::ScribesOwnChannel(std::move(there));
    ChildOptions options;
    options.arguments = {"/bin/sh", "-c", script};
    run->state.processes.scribe.process = ChildProcess::start(options);
  }
  void hear(const record::ScribeReport& report) {
    events.clear();
    scribe.send(report);
    take(desk.hear(1s));
  }
  // Its socket closes.
  void end() {
    events.clear();
    scribe.close();
    take(desk.hear(1s));
  }
  std::vector<record::ScribeOrder> orders() {
    std::vector<record::ScribeOrder> all;
    record::ScribeOrder order;
    while (scribe.receive(&order, 0ms) == comm::Received::message) all.push_back(order);
    return all;
  }
};

TEST_CASE("checkpoints that are saved or not are on record, and decided on") {
  DeskedRun sample;
  sample.hear(record::Saved{Step(4), 0.5, 100});
  CHECK(sample.only<decisions::StateSaved>().step == Step(4));
  REQUIRE(sample.logged("checkpoint").size() == 1);
  CHECK(sample.logged("checkpoint")[0]["step"] == 4);
  sample.hear(record::SaveFailed{Step(5), "no space left", "make room", false});
  CHECK(sample.only<decisions::NotSaved>().error == "no space left");
  CHECK(sample.logged("checkpoint_failed").size() == 1);
}

TEST_CASE("damage in memory ends the run with the code of one that can go on; once it is over it is a failed save") {
  DeskedRun sample;
  sample.hear(record::SaveFailed{Step(5), "is not what was written", "have the memory checked", true});
  const Error error = sample.only<decisions::ScribeFailed>().error;
  CHECK(error.message() == "the checkpoint of step 5 is not what was written");
  CHECK(error.advice() == "have the memory checked");
  CHECK(error.exit_code() == exit_code(Fault::interrupted));
  CHECK(sample.logged("fault").size() == 1);
  sample.run->job.phase = decisions::RunPhase::over;
  sample.hear(record::SaveFailed{Step(5), "is not what was written", "have the memory checked", true});
  CHECK(sample.only<decisions::NotSaved>().step == Step(5));
}

TEST_CASE("there is no room from a failed write until a record is written") {
  DeskedRun sample;
  CHECK(sample.desk.no_room().empty());
  comm::RecordRing ring = sample.run->memory->ring();
  for (int records = 0; records < 2; ++records) {
    ring.pending().head->step = Step(records + 1);
    CHECK(ring.publish());
  }
  sample.hear(record::WriteFailed{"metrics.jsonl: no space left"});
  CHECK(sample.only<decisions::NotWritten>().error == "metrics.jsonl: no space left");
  CHECK(sample.desk.no_room() == "metrics.jsonl: no space left");
  ring.drain_to(1);
  CHECK(sample.desk.no_room().empty());
  sample.hear(record::WriteFailed{"again"});
  CHECK(sample.desk.no_room() == "again");
  ring.drain_to(2);
  CHECK(sample.desk.no_room().empty());
}

TEST_CASE(
    "a new scribe begins before the first record that is not drained, even one published while this is found out") {
  DeskedRun sample;
  comm::RecordRing ring = sample.run->memory->ring();
  const auto publish = [&](comm::RecordKind kind, int64_t step) {
    ring.pending().head->kind = kind;
    ring.pending().head->step = Step(step);
    REQUIRE(ring.publish());
    return step;
  };
  const auto step_if_trained = [&](int64_t step) { return step_before_undrained([=] { return step; }, ring); };
  CHECK(step_if_trained(0) == 0);
  publish(comm::RecordKind::step, 1);
  CHECK(step_if_trained(1) == 0);
  ring.drain_to(1);
  CHECK(step_if_trained(1) == 1);
  publish(comm::RecordKind::evaluation, 1);
  CHECK(step_if_trained(1) == 1);
  ring.drain_to(2);
  CHECK(step_before_undrained([&] { return publish(comm::RecordKind::step, 2); }, ring) == 1);
}

TEST_CASE("the last state is saved once no earlier hold stands") {
  DeskedRun sample;
  REQUIRE(sample.run->memory->hold().try_hold(Step(3)));
  sample.take(sample.desk.save_last(Step(4)));
  CHECK(sample.orders().empty());
  CHECK(sample.events.empty());
  sample.run->memory->hold().release();
  sample.take(sample.desk.save_last(Step(4)));
  const std::vector<record::ScribeOrder> orders = sample.orders();
  REQUIRE(orders.size() == 1);
  CHECK(std::get<record::SaveState>(orders[0]).step == Step(4));
  CHECK(sample.run->memory->hold().held() == Step(4));
  CHECK(std::holds_alternative<decisions::SaveBegun>(sample.events.at(0)));
}

TEST_CASE("a scribe that ends is done only if it was told to finish, and either succeeded or has said why not") {
  const auto end_of = [](const char* script, bool told, bool said_why) {
    DeskedRun sample(script);
    sample.run->job.scribe.told_to_finish = told;
    if (said_why) sample.run->job.failure = Error(Fault::io, "no space left");
    sample.end();
    REQUIRE(sample.events.size() == 1);
    CHECK_FALSE(sample.run->state.processes.scribe.socket);
    return std::holds_alternative<decisions::ScribeDone>(sample.events[0])   ? "done"
           : std::holds_alternative<decisions::ScribeLost>(sample.events[0]) ? "lost"
                                                                             : "other";
  };
  CHECK(end_of("exit 0", true, false) == std::string("done"));
  CHECK(end_of("exit 1", true, true) == std::string("done"));
  CHECK(end_of("exit 1", true, false) == std::string("lost"));
  CHECK(end_of("exit 0", false, false) == std::string("lost"));
  CHECK(end_of("kill -9 $$", true, true) == std::string("lost"));
}

}  // namespace
}  // namespace estrain::launch
