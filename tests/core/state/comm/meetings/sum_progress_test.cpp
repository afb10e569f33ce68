#include "core/state/comm/meetings/sum_progress.h"

#include <doctest/doctest.h>

#include <thread>

#include "core/state/comm/stage_control.h"
#include "tests/core/state/comm/complete_memory.h"

namespace estrain::comm {
namespace {

TEST_CASE("as much is folded as the last of the host's workers has folded") {
  CompleteMemory built;
  SumProgress sums = built.memory.sums();
  sums.begin_step(2);
  CHECK(sums.folded_by_all(2) == 0);
  sums.note_folded(WorkerRank(0), 5);
  CHECK(sums.folded_by_all(2) == 0);
  sums.note_folded(WorkerRank(1), 3);
  CHECK(sums.folded_by_all(2) == 3);
  sums.begin_step(2);
  CHECK(sums.folded_by_all(2) == 0);
}

TEST_CASE("who waits for sums wakes when they are there, from the end on") {
  CompleteMemory built;
  SumProgress sums = built.memory.sums();
  sums.begin_step(1);
  auto waited = std::async(std::launch::async, [&] { return built.memory.sums().wait_summed(640); });
  CHECK(!done(waited));
  sums.note_summed(704);
  CHECK(!done(waited));
  CHECK(sums.is_summed(704));
  CHECK(!sums.is_summed(703));
  sums.note_summed(640);
  CHECK(waited.get());
  sums.begin_step(1);
  CHECK(!sums.is_summed(1 << 20));
}

TEST_CASE("who waits for factors wakes when those of all hosts are there, and in the next step waits anew") {
  CompleteMemory built;
  SumProgress sums = built.memory.sums();
  sums.begin_step(2);
  sums.note_factors(WorkerRank(1), 3);
  CHECK(sums.factors_of(0) == 0);
  CHECK(sums.factors_of(1) == 3);
  const auto wait = [&] { return built.memory.sums().wait_factors(); };
  auto waited = std::async(std::launch::async, wait);
  CHECK(!done(waited));
  sums.note_factors_arrived();
  CHECK(waited.get());
  sums.begin_step(2);
  CHECK(sums.factors_of(1) == 0);
  auto aborted = std::async(std::launch::async, wait);
  CHECK(!done(aborted));
  StageControl(built.memory).abort();
  CHECK(!aborted.get());
}

// ThreadSanitizer sees a word that is not stored or not read in order.
TEST_CASE("what a word tells of is there for whoever has read the word") {
  CompleteMemory built;
  SumProgress sums = built.memory.sums();
  float partial = 0, sum = 0;
  for (int step = 1; step <= 200; ++step) {
    sums.begin_step(1);
    std::thread worker([&] {
      SumProgress own = built.memory.sums();
      partial = static_cast<float>(step);
      own.note_folded(WorkerRank(0), 1);
      const bool there = step % 2 == 0 ? own.wait_summed(0) : [&] {
        while (!own.is_summed(0)) std::this_thread::yield();
        return true;
      }();
      CHECK(there);
      CHECK(sum == static_cast<float>(2 * step));
    });
    while (sums.folded_by_all(1) == 0) std::this_thread::yield();
    sum = 2 * partial;
    sums.note_summed(0);
    worker.join();
  }
}

TEST_CASE("nobody waits for sums in a stage that is aborted, and the next one begins with none") {
  CompleteMemory built;
  StageControl(built.memory).open();
  built.memory.sums().note_summed(64);
  built.memory.sums().note_folded(WorkerRank(2), 4);
  auto waited = std::async(std::launch::async, [&] { return built.memory.sums().wait_summed(0); });
  CHECK(!done(waited));
  StageControl(built.memory).abort();
  CHECK(!waited.get());
  StageControl(built.memory).open();
  CHECK(!built.memory.sums().is_summed(64));
  CHECK(built.memory.sums().folded_by_all(3) == 0);
}

}  // namespace
}  // namespace estrain::comm
