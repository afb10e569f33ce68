#include "core/launch/processes.h"

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
  const int64_t deadline = monotonic_ns() + milliseconds * INT64_C(1'000'000);
  while (monotonic_ns() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (took_processor_time(worker)) return true;
  }
  return false;
}

TEST_CASE("a worker that computes takes processor time, one that waits or has ended does not") {
  WorkerProcess busy = shell("while :; do :; done"), waiting = shell("exec sleep 100");
  for (int times = 0; times < 2; ++times) CHECK(works_within(busy, 20'000));
  works_within(waiting, 100);  // its start
  CHECK_FALSE(works_within(waiting, 300));
  for (WorkerProcess* worker : {&busy, &waiting}) {
    worker->process.signal(SIGKILL);
    worker->process.wait();
    took_processor_time(*worker);
    CHECK_FALSE(took_processor_time(*worker));
  }
}

}  // namespace
}  // namespace estrain::launch
