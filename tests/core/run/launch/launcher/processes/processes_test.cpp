#include "core/run/launch/launcher/processes/processes.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <initializer_list>
#include <thread>

#include "core/base/clock.h"
#include "tests/durations.h"

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

// A process that is silent since its clock began, checked ten times a second.
class Silent {
 public:
  // `processor_share`: CPU time over elapsed time. `state`: the process's state in /proc at each check.
  void pass(int64_t ns, double processor_share, char state = 'S') {
    for (const int64_t end = now_ + ns; now_ < end;) {
      now_ += 100 * kMs;
      taken_ += processor_share * 0.1;
      look(state);
    }
  }
  void beat() { since_ = now_; }
  void look(char state) {
    const auto ticks = static_cast<uint64_t>(taken_ * static_cast<double>(::sysconf(_SC_CLK_TCK)));
    sign_.observe(now_, since_, {state, ticks});
  }
  int64_t now() const { return now_; }
  int64_t idle_ns() const { return now_ - sign_.at_ns(); }

 private:
  WorkSign sign_;
  int64_t now_ = 1000 * kSecond, since_ = now_;
  double taken_ = 5;
};

TEST_CASE("who has never been looked at was never at work") { CHECK(WorkSign().at_ns() == 0); }

TEST_CASE("who takes processor time is at work; the time from before its silence is no sign") {
  Silent process;
  process.look('S');
  CHECK(process.idle_ns() == process.now());
  process.pass(kSecond, 1);
  CHECK(process.idle_ns() == 0);
  process.pass(5 * kSecond, 0);
  CHECK(process.idle_ns() == 5 * kSecond);
  process.beat();
  process.pass(100 * kMs, 1);  // the first check in a new silence
  CHECK(process.idle_ns() == 5 * kSecond + 100 * kMs);
  process.pass(100 * kMs, 1);
  CHECK(process.idle_ns() == 0);
}

TEST_CASE("a fiftieth of a processor is work, a few looks around of threads in the background are none") {
  Silent starved;
  starved.pass(100 * kSecond, 0.02);
  CHECK(starved.idle_ns() < 2 * kSecond);
  Silent hung;
  hung.pass(kSecond, 1);
  hung.pass(100 * kSecond, 0.002);
  CHECK(hung.idle_ns() >= 90 * kSecond);
}

TEST_CASE("who would run is at work, though others hold the processor") {
  Silent process;
  process.pass(100 * kSecond, 0, 'R');
  CHECK(process.idle_ns() == 0);
  for (const char state : {'S', 'D', 't', '\0'}) {
    process.pass(10 * kSecond, 0, state);
    CHECK(process.idle_ns() >= 10 * kSecond);
  }
}

TEST_CASE("what waits for one that works counts as at work") {
  WorkSign sign;
  sign.mark(7);
  CHECK(sign.at_ns() == 7);
}

}  // namespace
}  // namespace estrain::launch
