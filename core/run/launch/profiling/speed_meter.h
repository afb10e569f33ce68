#pragma once
// How fast a stage goes: steps against the clock, mini-batches against each worker's own computing time.
//
// The first steps of a stage (cold caches, readers that fill up) and stretches in which an evaluation ran, or new
// workers warmed up, are left out. Pure: told what the launcher sees in shared memory.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace estrain::launch {

class SpeedMeter {
 public:
  struct Worker {
    int64_t id = 0;
    std::string kind;  // of its device
    int64_t ests = 0;
    int64_t computing_ns = 0, mini_batches = 0;  // waiting for others is no part of it
    int64_t reading_ns = 0;                      // the part of computing_ns that waited for data
    double seconds_per_mini_batch() const;       // 0: none yet
  };
  struct Span {
    int64_t from_step = 0, to_step = 0;  // the steps after from_step, up to to_step; those counted are `steps`
    int64_t steps = 0;
    double seconds = 0;  // of these steps
    std::vector<Worker> workers;
    double step_seconds() const;      // 0: no step yet
    double exchange_seconds() const;  // the part of a step in which not even the slowest worker computed
    double reading_share() const;     // the part of the workers' own time in which they waited for data
  };

  static constexpr int64_t kColdSteps = 2;           // at the start of a stage
  static constexpr int64_t kWindowSteps = 5;         // looked at together
  static constexpr int64_t kWindowNs = 250'000'000;  // and at least so long
  static constexpr size_t kRecentWindows = 4;

  // The stage begins after step `step`.
  void begin(int64_t step);
  // `step` was committed at `step_ns` (monotonic); `evaluated`: the last step whose evaluation is out; `workers`: in
  // worker order, counts since the stage began. True: a window is complete.
  bool observe(int64_t step, int64_t step_ns, int64_t evaluated, const std::vector<Worker>& workers);

  // The step under way is not measured.
  void interrupt() { mark_.reset(); }

  const Span& stage() const { return stage_; }
  int64_t windows() const { return complete_; }        // of the stage, so far
  Span recent(size_t windows = kRecentWindows) const;  // the last ones together

 private:
  struct Mark {
    int64_t step = 0, ns = 0, evaluated = 0;
    std::vector<Worker> workers;
  };
  int64_t first_step_ = 0;
  std::optional<Mark> mark_;
  Span stage_;
  std::deque<Span> windows_;
  int64_t complete_ = 0;
};

}  // namespace estrain::launch
