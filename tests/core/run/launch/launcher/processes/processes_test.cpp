#include "core/run/launch/launcher/processes/processes.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <initializer_list>
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
  const MonotonicTime begin = MonotonicClock::now(), deadline = begin + milliseconds * 1ms;
  while (MonotonicClock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    worker.work.observe(MonotonicClock::now(), kNoTime, process_stat(worker.process.pid()));
    if (worker.work.at() > begin) return true;
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

TEST_CASE("workers are copies of a fork server, but not of a Python on a GPU, or in which numpy starts threads") {
  spec::JobSpec spec;
  const Device cpu, gpu{"cuda", 0};
  spec.job.threads = 2;
  CHECK(starts_by_fork(cpu, spec));
  CHECK(starts_by_fork(gpu, spec));
  spec.model.name = "python";
  CHECK_FALSE(starts_by_fork(cpu, spec));
  spec.job.threads = 1;
  CHECK(starts_by_fork(cpu, spec));
  CHECK_FALSE(starts_by_fork(gpu, spec));
}

TEST_CASE("the life of a worker on another host ends with the relay's words, or with the relay, or by a signal") {
  SUBCASE("the relay tells the end") {
    auto [line, relay] = comm::MessageSocket::pair();
    WorkerLife life(std::move(line));
    CHECK(life.running());
    CHECK(life.pid() == -1);
    ChildEnd end;
    CHECK_FALSE(life.wait_for(10ms, &end));
    relay.send({{"signaled", true}, {"code", SIGSEGV}, {"peak_memory_bytes", 123}});
    relay.close();
    REQUIRE(life.wait_for(20s, &end));
    CHECK(end.signaled);
    CHECK(end.code == SIGSEGV);
    CHECK(end.peak_memory_bytes == 123);
    CHECK_FALSE(life.running());
  }
  SUBCASE("the relay is lost") {
    auto [line, relay] = comm::MessageSocket::pair();
    WorkerLife life(std::move(line));
    relay.close();
    const ChildEnd end = life.wait();
    CHECK(end.text() == "SIGKILL (signal 9)");
    CHECK(end.peak_memory_bytes == 0);
    CHECK_FALSE(life.running());
  }
  SUBCASE("a signal closes the launcher's direction, and the relay answers by closing the line") {
    auto [line, relay] = comm::MessageSocket::pair();
    WorkerLife life(std::move(line));
    Json said;
    CHECK(relay.receive(&said, 0ms) == comm::Received::nothing);
    life.signal(SIGKILL);
    CHECK(relay.receive(&said, 20s) == comm::Received::closed);
    CHECK_FALSE(life.wait_for(10ms));
    relay.close();
    CHECK(life.wait().code == SIGKILL);
  }
}

TEST_CASE("the relay is told of the loss of a host once, however many hosts notice the loss") {
  auto [here, there] = comm::MessageSocket::pair();
  WorkerProcess worker;
  worker.socket = comm::WorkerChannel(std::move(here));
  CHECK(tell_host_lost(worker, "it has been silent for 1.5 s"));
  CHECK_FALSE(tell_host_lost(worker, "connection lost: End of file"));
  Json said;
  REQUIRE(there.receive(&said, 1s) == comm::Received::message);
  CHECK(said.value("why", "") == "it has been silent for 1.5 s");
  CHECK(there.receive(&said, 0ms) == comm::Received::nothing);
}

// A process that is silent since its clock began, checked ten times a second.
class Silent {
 public:
  // `processor_share`: CPU time over elapsed time. `state`: the process's state in /proc at each check.
  void pass(Nanoseconds time, double processor_share, char state = 'S') {
    for (const MonotonicTime end = now_ + time; now_ < end;) {
      now_ += 100ms;
      taken_ += processor_share * 0.1;
      look(state);
    }
  }
  void beat() { since_ = now_; }
  void look(char state) {
    const auto ticks = static_cast<uint64_t>(taken_ * static_cast<double>(::sysconf(_SC_CLK_TCK)));
    sign_.observe(now_, since_, {state, ticks});
  }
  MonotonicTime now() const { return now_; }
  Nanoseconds idle() const { return now_ - sign_.at(); }

 private:
  WorkSign sign_;
  MonotonicTime now_{1000s}, since_ = now_;
  double taken_ = 5;
};

TEST_CASE("who has never been looked at was never at work") { CHECK(WorkSign().at() == kNoTime); }

TEST_CASE("who takes processor time is at work; the time from before its silence is no sign") {
  Silent process;
  process.look('S');
  CHECK(process.idle() == process.now() - kNoTime);
  process.pass(1s, 1);
  CHECK(process.idle() == 0s);
  process.pass(5s, 0);
  CHECK(process.idle() == 5s);
  process.beat();
  process.pass(100ms, 1);  // the first check in a new silence
  CHECK(process.idle() == 5s + 100ms);
  process.pass(100ms, 1);
  CHECK(process.idle() == 0s);
}

TEST_CASE("a fiftieth of a processor is work, a few looks around of threads in the background are none") {
  Silent starved;
  starved.pass(100s, 0.02);
  CHECK(starved.idle() < 2s);
  Silent hung;
  hung.pass(1s, 1);
  hung.pass(100s, 0.002);
  CHECK(hung.idle() >= 90s);
}

TEST_CASE("who would run is at work, though others hold the processor") {
  Silent process;
  process.pass(100s, 0, 'R');
  CHECK(process.idle() == 0s);
  for (const char state : {'S', 'D', 't', '\0'}) {
    process.pass(10s, 0, state);
    CHECK(process.idle() >= 10s);
  }
}

TEST_CASE("what waits for one that works counts as at work") {
  WorkSign sign;
  sign.mark(monotonic_time(7));
  CHECK(sign.at() == monotonic_time(7));
}

}  // namespace
}  // namespace estrain::launch
