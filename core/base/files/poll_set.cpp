#include "core/base/files/poll_set.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace estrain {
namespace {

constexpr int64_t kNsOfMs = 1'000'000;

}  // namespace

int poll_within(std::span<pollfd> polled, int milliseconds) {
  const int64_t deadline_ns = monotonic_ns() + milliseconds * kNsOfMs;
  int left = milliseconds;
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), left);
    if (ready >= 0) return ready;
    if (errno != EINTR) throw system_error("cannot wait for descriptors", errno);
    if (milliseconds > 0)  // rounded up: no wait ends early
      left = static_cast<int>(std::max<int64_t>(0, (deadline_ns - monotonic_ns() + kNsOfMs - 1) / kNsOfMs));
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

int PollSet::wait(int milliseconds) {
  const int ready = poll_within(polled_, milliseconds);
  const size_t waited_for = polled_.size();
  for (size_t i = 0; i < std::min(waited_for, polled_.size()); ++i) {
    if (polled_[i].revents == 0 || !callbacks_[i]) continue;
    const Happened happened = callbacks_[i];  // the callback may change the set
    happened(polled_[i].revents);
  }
  return ready;
}

}  // namespace estrain
