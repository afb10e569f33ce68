#include "core/run/launch/launcher/parts/crew.h"

#include <doctest/doctest.h>

#include "tests/core/run/launch/launcher/parts/sample_run.h"

namespace estrain::launch {
namespace {

using decisions::WorkerId;

struct CrewedRun : SampleRun {
  Audits audits{run->view()};
  Losses losses{run->view(), processes(), {run->fault_table(), audits}};
  Crew crew{run->view(), processes(), losses};
  comm::WorkersOwnChannel worker;

  explicit CrewedRun(const spec::JobSpec& spec = {}) : SampleRun(spec) {
    train();
    auto [here, there] = comm::MessageSocket::pair();
    WorkerProcess& process = run->state.processes.workers[WorkerId(0)];
    process.socket = comm::WorkerChannel(std::move(here));
    ChildOptions options;
    options.arguments = {"/bin/sh", "-c", "exit 1"};
    process.process = ChildProcess::start(options);
    worker = comm::WorkersOwnChannel(std::move(there));
  }
  void hear() {
    events.clear();
    take(crew.hear(WorkerId(0)));
  }
};

TEST_CASE("what workers say becomes events; silence and strangers are none") {
  CrewedRun sample;
  sample.hear();
  sample.take(sample.crew.hear(WorkerId(9)));
  CHECK(sample.events.empty());
  sample.worker.send(comm::Ready{});
  sample.hear();
  CHECK(sample.only<decisions::WorkerReady>().worker == WorkerId(0));
  sample.worker.send(comm::LeftStage{true});
  sample.hear();
  CHECK(sample.only<decisions::WorkerLeft>().finished);
}

TEST_CASE("the end of a process is judged by its last words, though they are read after it") {
  CrewedRun sample;
  sample.worker.send(comm::AuditFound{Step(4)});
  sample.worker.send(comm::Failed(Error(Fault::device, "the device is lost")));
  sample.worker.close();
  sample.events.clear();
  sample.take(sample.crew.note_end(WorkerId(0)));
  const auto lost = sample.only<decisions::WorkerLost>();
  CHECK(lost.what == "the device is lost");
  CHECK(sample.logged("fault").at(0).value("vouched_step", -1) == 4);
}

spec::JobSpec skipping(int64_t most) {
  spec::JobSpec spec;
  spec.data.skip_bad = most;
  return spec;
}

TEST_CASE("samples left out are on record once, and one too many is the loss of the worker that found it") {
  CrewedRun sample(skipping(2));
  for (const int64_t number : {7, 3, 7}) {
    sample.worker.send(comm::LeftOutSample{"training", number, "f.png: torn"});
    sample.hear();
    CHECK(sample.events.empty());
  }
  const std::vector<Json> left_out = sample.logged("left_out");
  REQUIRE(left_out.size() == 2);
  CHECK(left_out[0].at("sample") == 7);
  CHECK(left_out[1].at("sample") == 3);
  CHECK(left_out[1].at("why") == "f.png: torn");
  sample.worker.send(comm::LeftOutSample{"evaluation", 7, "g.png: torn"});
  sample.hear();
  const auto lost = sample.only<decisions::WorkerLost>();
  CHECK(lost.what.starts_with("g.png: torn: 2 samples are left out already"));
  CHECK(sample.logged("left_out").size() == 2);
}

TEST_CASE("a later launcher knows the samples that are on record") {
  CrewedRun sample(skipping(2));
  sample.run->view().journal.log("left_out", {{"set", "training"}, {"sample", 7}});
  for (const int64_t number : {7, 3}) {
    sample.worker.send(comm::LeftOutSample{"training", number, "f.png: torn"});
    sample.hear();
    CHECK(sample.events.empty());
  }
  CHECK(sample.logged("left_out").size() == 2);
}

TEST_CASE("without last words it is judged by how it ended") {
  CrewedRun sample;
  sample.worker.close();
  sample.hear();
  CHECK(sample.only<decisions::WorkerLost>().what == "ended with exit status 1");
}

}  // namespace
}  // namespace estrain::launch
