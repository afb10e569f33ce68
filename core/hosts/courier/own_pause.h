#pragma once
// Notices that this process stood still (stopped, or starved) and continues: other hosts may count this host as lost.

#include "core/base/clock.h"

namespace estrain::hosts {

class OwnPause {
 public:
  // The owner's timer calls this at least every 100 ms. Returns true if the process stood still until now.
  bool tick() {
    const int64_t now = monotonic_ns();
    const bool ended = now - tick_ns_ > kPauseNs;
    if (ended) ended_ns_ = now;
    tick_ns_ = now;
    return ended;
  }

  // The process stands still, or did in the last five seconds: other hosts may still be dropping this host.
  bool is_recent() const {
    const int64_t now = monotonic_ns();
    return now - tick_ns_ > kPauseNs || now - ended_ns_ < kAfterwardsNs;
  }

 private:
  static constexpr int64_t kPauseNs = 750'000'000, kAfterwardsNs = 5'000'000'000;

  int64_t tick_ns_ = monotonic_ns(), ended_ns_ = tick_ns_ - kAfterwardsNs;
};

}  // namespace estrain::hosts
