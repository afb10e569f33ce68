#pragma once
// Finds the worker that holds up the stage: a pure function of the time of the workers' mini-batches.
//
// Time spent waiting for other workers is left out, so the named worker is the slow worker, not a worker waiting for
// it. A worker is measured against the other workers on devices of the same kind, or, as the only worker of its kind,
// against its own best time since the stage began.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/run/launch/profiling/speed_meter.h"

namespace estrain::launch {

class SpeedWatch {
 public:
  // A worker's speed in the last window.
  struct Speed {
    int64_t worker = 0;
    bool slow = false;
    double factor = 1;                      // time per mini-batch over the usual time
    double seconds = 0, usual_seconds = 0;  // per mini-batch
    int64_t since_step = 0;                 // the first slow step
    double reading_seconds = 0;             // the part of `seconds` spent on waiting for data
    double reading_share() const { return seconds > 0 ? reading_seconds / seconds : 0; }
  };

  static constexpr double kSlow = 1.5;    // in two windows in a row: named
  static constexpr double kUsual = 1.25;  // below this factor in one window: no longer slow

  // Call often, with all workers of the stage and their work in the stage; looks at windows as long as SpeedMeter's.
  // `now_ns` is monotonic. Returns the workers that became slow, or are no longer slow.
  std::vector<Speed> observe(int64_t step, int64_t now_ns, const std::vector<SpeedMeter::Worker>& workers);
  // Returns the speed of a worker; null before the first measurement.
  const Speed* find(int64_t worker) const;

 private:
  struct Watched {
    SpeedMeter::Worker at_mark;
    double best = 0;  // seconds per mini-batch of the best window; 0: none yet
    int slow_windows = 0;
    Speed speed;
  };
  void mark(int64_t step, int64_t now_ns, const std::vector<SpeedMeter::Worker>& workers);

  int64_t marked_step_ = -1, marked_ns_ = 0;
  std::map<int64_t, Watched> watched_;
};

}  // namespace estrain::launch
