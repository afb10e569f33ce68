#pragma once
// Measures the speed of a stage: steps against the clock, mini-batches against each worker's own computing time.
//
// Left out: the first steps of a stage (cold caches, readers still filling), and stretches in which an evaluation ran
// or new workers warmed up. Pure: the caller tells the launcher's observations of shared memory.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace estrain::launch {

class SpeedMeter {
 public:
  struct Worker {
    int64_t id = 0;
    std::string kind;  // of the worker's device
    int64_t ests = 0;
    Nanoseconds computing{};  // of the mini-batches, without waiting for other workers
    int64_t mini_batches = 0;
    Nanoseconds reading{};                  // the part of computing spent on waiting for data
    double seconds_per_mini_batch() const;  // 0: none yet
  };
  struct MeasuredSteps {
    int64_t from_step = 0, to_step = 0;  // after from_step, up to to_step; `steps` of these are counted
    int64_t steps = 0;
    double seconds = 0;  // of the counted steps
    std::vector<Worker> workers;
    double step_seconds() const;      // 0: no step yet
    double exchange_seconds() const;  // the part of a step in which not even the slowest worker computed
    double reading_share() const;     // the part of the workers' own time spent on waiting for data
  };

  static constexpr int64_t kColdSteps = 2;       // at the start of a stage
  static constexpr int64_t kWindowSteps = 5;     // looked at together
  static constexpr Nanoseconds kWindow = 250ms;  // and at least this long
  static constexpr size_t kRecentWindows = 4;

  // The stage begins after step `step`.
  void begin(int64_t step);
  // `step` was committed at `step_at`; `evaluated`: the last step with a finished evaluation; `workers`: in
  // worker order, counts since the stage began. True: a window is complete.
  bool observe(int64_t step, MonotonicTime step_at, int64_t evaluated, const std::vector<Worker>& workers);

  // The step under way is not measured.
  void interrupt() { mark_.reset(); }

  const MeasuredSteps& stage() const { return stage_; }
  int64_t windows() const { return complete_; }                 // of the stage, so far
  MeasuredSteps recent(size_t windows = kRecentWindows) const;  // the last windows together

 private:
  struct Snapshot {
    int64_t step = 0;
    MonotonicTime time{};
    int64_t evaluated = 0;
    std::vector<Worker> workers;
  };
  int64_t first_step_ = 0;
  std::optional<Snapshot> mark_;
  MeasuredSteps stage_;
  std::deque<MeasuredSteps> windows_;
  int64_t complete_ = 0;
};

// Finds the worker that holds up the stage: a pure function of the time of the workers' mini-batches.
//
// Time spent waiting for other workers is left out, so the named worker is the slow worker, not a worker waiting for
// it. A worker is measured against the other workers on devices of the same kind, or, as the only worker of its kind,
// against its own best time since the stage began.
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
  // Returns the workers that became slow, or are no longer slow.
  std::vector<Speed> observe(int64_t step, MonotonicTime now, const std::vector<SpeedMeter::Worker>& workers);
  // Returns the speed of a worker; null before the first measurement.
  const Speed* find(int64_t worker) const;

 private:
  struct Watched {
    SpeedMeter::Worker at_mark;
    double best = 0;  // seconds per mini-batch of the best window; 0: none yet
    int slow_windows = 0;
    Speed speed;
  };
  void mark(int64_t step, MonotonicTime now, const std::vector<SpeedMeter::Worker>& workers);

  int64_t marked_step_ = -1;
  MonotonicTime marked_{};
  std::map<int64_t, Watched> watched_;
};

}  // namespace estrain::launch
