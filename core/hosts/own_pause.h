#pragma once
// Whether this process stood still (stopped, or starved) and goes on: then others may have taken it for lost.

#include <memory>

#include "core/base/clock.h"
#include "core/net/loop.h"

namespace estrain::hosts {

class OwnPause {
 public:
  explicit OwnPause(net::Loop& loop) : timer_(loop.every(kTickMs, [this] { tick(); })) {}
  OwnPause(const OwnPause&) = delete;

  // Now, or in the last five seconds.
  bool is_recent() const {
    const int64_t now = monotonic_ns();
    return now - tick_ns_ > kPauseNs || now - ended_ns_ < kAfterwardsNs;
  }

 private:
  static constexpr int kTickMs = 100;
  static constexpr int64_t kPauseNs = 750'000'000, kAfterwardsNs = 5'000'000'000;

  void tick() {
    const int64_t now = monotonic_ns();
    if (now - tick_ns_ > kPauseNs) ended_ns_ = now;
    tick_ns_ = now;
  }

  int64_t tick_ns_ = monotonic_ns(), ended_ns_ = tick_ns_ - kAfterwardsNs;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
