#pragma once
// The worker that holds the others up: a pure function of how long the workers' mini-batches took.
//
// Time spent waiting for others is no part of it, so the worker that is named is the slow one and not one that waits
// for it. It is measured against the other workers on devices of the same kind, or, where there are none, against its
// own best time since the stage began.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/run/launch/profiling/speed_meter.h"

namespace estrain::launch {

class SpeedWatch {
 public:
  // How fast a worker was in the last window.
  struct Speed {
    int64_t worker = 0;
    bool slow = false;
    double factor = 1;                      // its time per mini-batch over the usual one
    double seconds = 0, usual_seconds = 0;  // per mini-batch
    int64_t since_step = 0;                 // when it began to be slow
    double reading_seconds = 0;             // the part of `seconds` in which it waited for data
    double reading_share() const { return seconds > 0 ? reading_seconds / seconds : 0; }
  };

  static constexpr double kSlow = 1.5;    // in two windows in a row: named
  static constexpr double kUsual = 1.25;  // below this in one window: no longer

  // Call often, with all workers of the stage and what they have done in it; looks at windows as long as SpeedMeter's.
  //  `now_ns` is monotonic. Returns those that became slow, or are no longer.
  std::vector<Speed> observe(int64_t step, int64_t now_ns, const std::vector<SpeedMeter::Worker>& workers);
  // The speed of a worker; null before it has been measured.
  const Speed* find(int64_t worker) const;

 private:
  struct Watched {
    SpeedMeter::Worker at_mark;
    double best = 0;  // seconds per mini-batch of its best window; 0: none yet
    int slow_windows = 0;
    Speed speed;
  };
  void mark(int64_t step, int64_t now_ns, const std::vector<SpeedMeter::Worker>& workers);

  int64_t marked_step_ = -1, marked_ns_ = 0;
  std::map<int64_t, Watched> watched_;
};

}  // namespace estrain::launch
