#pragma once
// Notices that this process stood still (stopped, or starved) and continues: other hosts may have taken it for lost.

#include "core/base/clock.h"

namespace estrain::hosts {

class OwnPause {
 public:
  // The owner's timer calls this at least every 100 ms. True: the process stood still until now.
  bool tick() {
    const int64_t now = monotonic_ns();
    const bool ended = now - tick_ns_ > kPauseNs;
    if (ended) ended_ns_ = now;
    tick_ns_ = now;
    return ended;
  }

  // The process stands still or did so in the last five seconds, in which others may still let go of it.
  bool is_recent() const {
    const int64_t now = monotonic_ns();
    return now - tick_ns_ > kPauseNs || now - ended_ns_ < kAfterwardsNs;
  }

 private:
  static constexpr int64_t kPauseNs = 750'000'000, kAfterwardsNs = 5'000'000'000;

  int64_t tick_ns_ = monotonic_ns(), ended_ns_ = tick_ns_ - kAfterwardsNs;
};

}  // namespace estrain::hosts
