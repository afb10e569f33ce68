#pragma once
// Waits for descriptors by poll(2). A signal handled meanwhile does not end a wait.

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/clock.h"

namespace estrain {

inline constexpr std::chrono::milliseconds kForever{-1};  // no limit for a wait
// Returns the wait until the deadline, rounded up, so that no wait ends early; 0 after the deadline.
std::chrono::milliseconds left_until(MonotonicTime deadline);

// Waits for an event of a descriptor, for at most `limit`. Returns the number of descriptors with an event; 0: the time
// is over. Throws Fault::io.
int poll_within(std::span<pollfd> polled, std::chrono::milliseconds limit);

// A PollSet is a set of descriptors for one wait after another, each with its events and a callback.
class PollSet {
 public:
  using Happened = std::function<void(int16_t events)>;  // the events of pollfd::revents

  // A negative descriptor never has an event. Without a callback, the descriptor only ends a wait.
  void add(int descriptor, int16_t events, Happened happened = nullptr);
  void clear();

  // Waits as poll_within() does, then calls back for each descriptor with an event, in the order of adding. Callbacks
  // may add descriptors for the next wait, or clear the set: then no further callback follows.
  int wait(std::chrono::milliseconds limit);

 private:
  std::vector<pollfd> polled_;
  std::vector<Happened> callbacks_;
};

}  // namespace estrain
