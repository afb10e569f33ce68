#include "core/run/launch/launcher/parts/losses.h"

#include <doctest/doctest.h>

#include <csignal>

#include "tests/core/run/launch/launcher/parts/sample_run.h"

namespace estrain::launch {
namespace {

using decisions::WorkerId;

struct LosingRun : SampleRun {
  Audits audits{run->view()};
  Losses losses{run->view(), processes(), {run->fault_table(), audits}};
  LosingRun() { train(); }

  // The worker becomes a process that does this.
  void be(int64_t id, const std::string& script) {
    ChildOptions options;
    options.arguments = {"/bin/sh", "-c", script};
    options.output = run->journal.directory.worker_log(id);
    run->state.processes.workers[WorkerId(id)].process = ChildProcess::start(options);
  }
};

TEST_CASE("a worker that was killed: on record with its device and ESTs, gone, and worth another try") {
  LosingRun sample;
  sample.be(1, "kill -9 $$");
  sample.take(sample.losses.lose(WorkerId(1), {}));
  const auto lost = sample.only<decisions::WorkerLost>();
  CHECK(lost.worker == WorkerId(1));
  CHECK(lost.verdict.retry);
  CHECK_FALSE(lost.lingers);
  CHECK(lost.what == "ended with SIGKILL (signal 9)");
  CHECK(lost.error.message().find("on cpu:avx2 ended with SIGKILL") != std::string::npos);
  CHECK(lost.error.message().starts_with("worker 1 (ESTs 2 to 2): "));
  const std::vector<Json> faults = sample.logged("fault");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0]["worker"] == 1);
  CHECK(faults[0]["device"] == "cpu:avx2");
  CHECK(faults[0]["ests"] == Json::array({2, 3}));
  CHECK(faults[0]["cause"] == lost.verdict.cause);
  CHECK(faults[0]["peak_memory_bytes"] > 0);
  REQUIRE(sample.losses.of(WorkerId(1)) != nullptr);
  CHECK(sample.losses.of(WorkerId(0)) == nullptr);
  CHECK(sample.run->state.processes.workers.empty());
}

TEST_CASE("the reported error is the last word of a process that ends") {
  LosingRun sample;
  sample.be(0, "exit 1");
  faults::Evidence evidence;
  evidence.said = Error(Fault::spec, "no such layer").advise("name another");
  sample.take(sample.losses.lose(WorkerId(0), evidence));
  const auto lost = sample.only<decisions::WorkerLost>();
  CHECK_FALSE(lost.verdict.retry);
  CHECK(lost.error.message() == "worker 0 (ESTs 0 to 1): no such layer");
  CHECK(lost.error.advice() == "name another");
  CHECK(lost.what == "no such layer");
}

TEST_CASE("the last lines of its log go with the loss, not those of an earlier launch") {
  LosingRun sample;
  replace_bytes(sample.run->journal.directory.worker_log(0), "old words\n");
  sample.be(0, "echo new words; exit 3");
  sample.run->state.processes.workers[WorkerId(0)].log_begin = 10;
  sample.take(sample.losses.lose(WorkerId(0), {}));
  REQUIRE(sample.losses.of(WorkerId(0)) != nullptr);
  CHECK(sample.losses.of(WorkerId(0))->last_words == "new words\n");
}

TEST_CASE("whoever was to leave has ended, and whoever is lost after the end of the run is nobody's loss") {
  LosingRun sample;
  sample.be(1, "exit 0");
  sample.run->job.leaving.push_back(sample.run->job.workers.back());
  sample.run->job.workers.pop_back();
  sample.take(sample.losses.lose(WorkerId(1), {}));
  CHECK(sample.only<decisions::WorkerEnded>().worker == WorkerId(1));
  sample.events.clear();
  sample.be(0, "exit 1");
  sample.run->job.phase = decisions::RunPhase::over;
  sample.take(sample.losses.lose(WorkerId(0), {}));
  sample.take(sample.losses.lose(WorkerId(7), {}));  // nobody
  CHECK(sample.events.empty());
  CHECK(sample.logged("fault").empty());
}

TEST_CASE("a scribe that hung, and one that ended, are told apart") {
  LosingRun sample;
  sample.take(sample.losses.lose_scribe({.signaled = true, .code = SIGKILL}, true));
  auto lost = sample.only<decisions::ScribeLost>();
  CHECK(lost.hung);
  CHECK(lost.what == "hung");
  CHECK(lost.verdict.cause == "hung");
  sample.events.clear();
  sample.take(sample.losses.lose_scribe({.code = 3}, false));
  lost = sample.only<decisions::ScribeLost>();
  CHECK_FALSE(lost.hung);
  CHECK(lost.what == "exit status 3");
  CHECK(sample.logged("fault").size() == 2);
  CHECK(sample.logged("fault")[0]["worker"] == "scribe");
}

}  // namespace
}  // namespace estrain::launch
