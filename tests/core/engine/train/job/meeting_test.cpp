#include "core/engine/train/job/meeting.h"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <thread>

#include "core/state/comm/stage_control.h"
#include "tests/core/state/comm/complete_memory.h"

namespace estrain::train {
namespace {

StageOrder order_of(int64_t worker) {
  const auto range = [](int64_t begin) { return EstRange{VirtualRank(begin), VirtualRank(begin + 1)}; };
  return {WorkerRank(worker), {range(0), range(1)}};
}

struct TwoWorkers : comm::CompleteMemory {
  comm::BarrierWords& words = memory.meetings().finished();
  StageMeeting first{words, memory, order_of(0)}, second{words, memory, order_of(1)};
  comm::Activity activity(int64_t worker) { return memory.pulse(WorkerRank(worker)).activity.load(); }
  // Waits until worker 0 is in the meeting. Returns false after a minute, long enough for a busy machine.
  bool first_waits() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (activity(0) != comm::Activity::meeting) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
};

TEST_CASE("nobody goes on before all are there; the last one does what is done once, before the others go on") {
  TwoWorkers workers;
  for (int round = 0; round < 3; ++round) {
    int times = 0;
    const auto once = [&times] { ++times; };
    auto waiting = std::async(std::launch::async, [&] { return workers.first.meet(once); });
    REQUIRE(workers.first_waits());
    CHECK_FALSE(comm::done(waiting));
    CHECK(times == 0);
    CHECK(workers.second.meet(once));
    CHECK(waiting.get());
    CHECK(times == 1);
    CHECK(workers.activity(0) == comm::Activity::computing);
    CHECK(workers.activity(1) == comm::Activity::computing);
  }
}

TEST_CASE("whoever waits leaves when the stage is given up") {
  TwoWorkers workers;
  auto waiting = std::async(std::launch::async, [&] { return workers.first.meet(); });
  CHECK_FALSE(comm::done(waiting));
  comm::StageControl(workers.memory).abort();
  CHECK_FALSE(waiting.get());
}

TEST_CASE("the last one to arrive does its part even then, and says that the stage is given up") {
  TwoWorkers workers;
  bool did = false;
  auto waiting = std::async(std::launch::async, [&] { return workers.first.meet(); });
  CHECK_FALSE(comm::done(waiting));
  CHECK_FALSE(workers.second.meet([&] {
    did = true;
    comm::StageControl(workers.memory).abort();
  }));
  CHECK(did);
  waiting.get();  // true or false: it may see either first
}

}  // namespace
}  // namespace estrain::train
