#include "core/state/comm/meetings/barrier.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <vector>

#include "tests/core/state/comm/memory_words.h"

namespace estrain::comm {
namespace {

using namespace std::chrono_literals;

struct Meeting {
  BarrierWords words{};
  std::atomic<uint32_t> abort{0};
};

TEST_CASE("whoever is alone meets at once") {
  Meeting meeting;
  Barrier barrier(meeting.words, meeting.abort, 1, 0);
  int times = 0;
  for (int round = 0; round < 3; ++round) CHECK(barrier.meet([&] { return ++times > 0; }));
  CHECK(times == 3);
  CHECK_FALSE(barrier.meet([] { return false; }));
}

// Each thread increments its own counter before every barrier; after the barrier, all counters are equal.
void meet_many_times(uint32_t parties, int spins, int rounds) {
  Meeting meeting;
  std::vector<std::atomic<int>> counters(parties);
  std::atomic<int> once{0}, wrong{0};
  const auto party = [&](size_t own) {
    Barrier barrier(meeting.words, meeting.abort, parties, spins);
    for (int round = 1; round <= rounds; ++round) {
      counters[own].store(round);
      const bool met = barrier.meet([&] {
        for (const auto& counter : counters) wrong += counter.load() != round;
        ++once;
        return true;
      });
      wrong += !met || once.load() != round;
      for (const auto& counter : counters) wrong += counter.load() < round;
      if (!barrier.meet()) ++wrong;  // no thread starts the next round before all have checked
    }
  };
  std::vector<std::thread> threads;
  for (size_t own = 0; own < parties; ++own) threads.emplace_back(party, own);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
  CHECK(once.load() == rounds);
}

TEST_CASE("nobody leaves before all have arrived, and what is done once is done before") {
  meet_many_times(2, 2000, 500);
  meet_many_times(2, 0, 500);
  meet_many_times(5, 0, 200);
}

TEST_CASE("an abort releases those who wait") {
  for (const int spins : {0, 100}) {
    Meeting meeting;
    const auto wait = [&] { return Barrier(meeting.words, meeting.abort, 3, spins).meet(); };
    auto first = std::async(std::launch::async, wait), second = std::async(std::launch::async, wait);
    CHECK(first.wait_for(50ms) == std::future_status::timeout);
    meeting.abort.store(1);
    CHECK_FALSE(first.get());
    CHECK_FALSE(second.get());
  }
}

// Like workers, the processes share only the job's memory. The header's barrier words need only the state of
// JobMemory::create.
TEST_CASE("processes meet, and one that dies is not waited for after an abort") {
  const UniqueFd fd = JobMemory::create();
  JobMemory memory(fd.get());
  MemoryHeader& header = words_of(memory);
  constexpr uint32_t kParties = 3;
  constexpr int kRounds = 200;
  std::vector<pid_t> children;
  for (uint32_t own = 0; own < kParties; ++own) {
    const pid_t child = ::fork();
    if (child == 0) {
      JobMemory mine(fd.get());
      Barrier barrier(words_of(mine).gathered, words_of(mine).abort, kParties, 0);
      for (int round = 0; round < kRounds; ++round) {
        words_of(mine).next_sum.fetch_add(1);
        const bool met = barrier.meet([&] { return words_of(mine).next_sum.load() % kParties == 0; });
        if (!met) ::_exit(1);
        if (!barrier.meet()) ::_exit(2);
      }
      if (own == 0) ::_exit(0);
      ::_exit(barrier.meet() ? 3 : 4);  // the first never comes
    }
    children.push_back(child);
  }
  const auto exit_status = [](pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(exit_status(children[0]) == 0);
  header.abort.store(1);
  CHECK(exit_status(children[1]) == 4);
  CHECK(exit_status(children[2]) == 4);
  CHECK(header.next_sum.load() == kParties * kRounds);
}

}  // namespace
}  // namespace estrain::comm
