#include "core/base/files/poll_set.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"

namespace estrain {
namespace {

UniqueFd new_bell(unsigned rings = 0) { return UniqueFd(::eventfd(rings, EFD_CLOEXEC | EFD_NONBLOCK)); }

TEST_CASE("descriptors with an event are called back in the order of adding, the rest are not") {
  const UniqueFd quiet = new_bell(), first = new_bell(1), second = new_bell(1);
  std::vector<std::string> heard;
  const auto hear = [&](const char* name) { return [&heard, name](int16_t) { heard.emplace_back(name); }; };
  PollSet set;
  set.add(second.get(), POLLIN, hear("second"));
  set.add(quiet.get(), POLLIN, hear("quiet"));
  set.add(-1, POLLIN, hear("none"));
  set.add(first.get(), POLLIN, hear("first"));
  CHECK(set.wait(kForever) == 2);
  CHECK(heard == std::vector<std::string>{"second", "first"});
}

TEST_CASE("a callback hears its events; a descriptor without a callback only ends the wait") {
  const UniqueFd writable = new_bell(), rung = new_bell(1);
  int16_t events = 0;
  PollSet set;
  set.add(rung.get(), POLLIN);
  set.add(writable.get(), POLLIN | POLLOUT, [&](int16_t happened) { events = happened; });
  CHECK(set.wait(kForever) == 2);
  CHECK(events == POLLOUT);
}

TEST_CASE("a callback may add descriptors for the next wait, or clear the set") {
  const UniqueFd first = new_bell(1), second = new_bell(1);
  int calls = 0;
  PollSet set;
  const auto add_another = [&](int16_t) {
    ++calls;
    for (int i = 0; i < 100; ++i) set.add(second.get(), POLLIN, [&](int16_t) { ++calls; });
  };
  set.add(first.get(), POLLIN, add_another);
  set.wait(0ms);
  CHECK(calls == 1);
  set.clear();
  set.add(first.get(), POLLIN, [&](int16_t) {
    ++calls;
    set.clear();
  });
  set.add(second.get(), POLLIN, [&](int16_t) { ++calls; });
  set.wait(0ms);
  CHECK(calls == 2);
  CHECK(set.wait(0ms) == 0);
}

TEST_CASE("a signal does not end a wait, and the wait ends in time") {
  struct sigaction handled {};
  handled.sa_handler = [](int) {};
  struct sigaction before {};
  ::sigaction(SIGUSR2, &handled, &before);
  std::atomic<bool> over{false};
  const pthread_t waiter = ::pthread_self();
  std::thread disturbs([&] {
    while (!over) {
      ::pthread_kill(waiter, SIGUSR2);
      std::this_thread::yield();
    }
  });
  const UniqueFd quiet = new_bell();
  PollSet set;
  set.add(quiet.get(), POLLIN);
  const int64_t begin = monotonic_ns();
  CHECK(set.wait(50ms) == 0);
  CHECK(monotonic_ns() - begin >= 50'000'000);
  over = true;
  disturbs.join();
  ::sigaction(SIGUSR2, &before, nullptr);
}

}  // namespace
}  // namespace estrain
