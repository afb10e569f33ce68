#include "core/base/files/poll_set.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace estrain {

std::chrono::milliseconds left_until(MonotonicTime deadline) {
  return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicClock::now()));
}

int poll_within(std::span<pollfd> polled, std::chrono::milliseconds limit) {
  const MonotonicTime deadline = MonotonicClock::now() + limit;
  std::chrono::milliseconds left = limit;
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
    if (ready >= 0) return ready;
    if (errno != EINTR) throw system_error("cannot wait for descriptors", errno);
    if (limit > 0ms) left = left_until(deadline);
  }
}

void PollSet::add(int descriptor, int16_t events, Happened happened) {
  polled_.push_back({descriptor, events, 0});
  callbacks_.push_back(std::move(happened));
}

void PollSet::clear() {
  polled_.clear();
  callbacks_.clear();
}

int PollSet::wait(std::chrono::milliseconds limit) {
  const int ready = poll_within(polled_, limit);
  const size_t waited_for = polled_.size();
  for (size_t i = 0; i < std::min(waited_for, polled_.size()); ++i) {
    if (polled_[i].revents == 0 || !callbacks_[i]) continue;
    const Happened happened = callbacks_[i];  // the callback may change the set
    happened(polled_[i].revents);
  }
  return ready;
}

}  // namespace estrain
