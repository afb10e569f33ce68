#include "core/run/launch/launcher/processes/processes.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "core/base/clock.h"

namespace estrain::launch {
namespace {

WorkerProcess shell(const std::string& script) {
  ChildOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  WorkerProcess worker;
  worker.process = ChildProcess::start(options);
  return worker;
}

bool works_within(WorkerProcess& worker, int64_t milliseconds) {
  const int64_t begin = monotonic_ns(), deadline = begin + milliseconds * INT64_C(1'000'000);
  while (monotonic_ns() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    worker.work.observe(monotonic_ns(), 0, process_stat(worker.process.pid()));
    if (worker.work.at_ns() > begin) return true;
  }
  return false;
}

TEST_CASE("a worker that computes is seen at work, one that waits or has ended is not") {
  WorkerProcess busy = shell("while :; do :; done"), waiting = shell("exec sleep 100");
  for (int times = 0; times < 2; ++times) CHECK(works_within(busy, 20'000));
  works_within(waiting, 100);  // its start
  CHECK_FALSE(works_within(waiting, 300));
  for (WorkerProcess* worker : {&busy, &waiting}) {
    worker->process.signal(SIGKILL);
    worker->process.wait();
    CHECK_FALSE(works_within(*worker, 100));
  }
}

TEST_CASE("workers on CPUs are copies of a fork server, but not of a Python in which numpy starts threads") {
  spec::JobSpec spec;
  const Device cpu, gpu{"cuda", 0};
  spec.job.threads = 2;
  CHECK(starts_by_fork(cpu, spec));
  CHECK_FALSE(starts_by_fork(gpu, spec));
  spec.model.name = "python";
  CHECK_FALSE(starts_by_fork(cpu, spec));
  spec.job.threads = 1;
  CHECK(starts_by_fork(cpu, spec));
  CHECK_FALSE(starts_by_fork(gpu, spec));
}

TEST_CASE("a proxy is told of the loss of its host once, however many hosts notice it") {
  auto [here, there] = comm::MessageSocket::pair();
  WorkerProcess proxy;
  proxy.socket = comm::WorkerChannel(std::move(here));
  CHECK(tell_host_lost(proxy, "it has been silent for 1.5 s"));
  CHECK_FALSE(tell_host_lost(proxy, "connection lost: End of file"));
  Json said;
  REQUIRE(there.receive(&said, 1000) == comm::Received::message);
  CHECK(said.value("why", "") == "it has been silent for 1.5 s");
  CHECK(there.receive(&said, 0) == comm::Received::nothing);
}

}  // namespace
}  // namespace estrain::launch
