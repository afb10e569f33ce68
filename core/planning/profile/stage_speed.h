#pragma once
// The speed of a stage of a run, as the launcher logs it (`stage_speed` of events.jsonl), and the speeds of the
// stage's devices derived from it.
//
// A worker waits after its ESTs, and leaves memory and cores to the rest. If workers finish at times f_1 <= f_2
// <= …, the k-th to finish therefore shared the machine with W - 1 workers only until f_1, with W - 2 until
// f_2, and so on. For ranges of unequal length, times are converted to times with all workers computing all the
// time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/profile/capability.h"

namespace estrain::profile {

// Threads per available core: workers take turns if there are too few cores. At least 1.
double turns(int64_t workers, int64_t threads, int64_t cores);

// Returns the factors by which a mini-batch takes longer while several workers compute: crowding[w - 1] for w = 1 …
// workers, as in plan::PlannedJob. The mean over the kinds measured both with w
// workers and with one worker, interpolated linearly between measured numbers. Beyond the measured numbers, and
// without measurements, workers take turns on the cores: the last factor grows in proportion to max(1, w threads /
// cores).
std::vector<double> crowding(const std::vector<const Capability*>& kinds, int64_t workers, int64_t threads,
                             int64_t cores);

struct StageSpeed {
  struct Worker {
    std::string kind;
    int64_t ests = 0;
    int64_t mini_batches = 0;
    double computing_seconds = 0;  // within the mini-batches, without waiting for other workers
    double mini_batch_seconds() const { return computing_seconds / static_cast<double>(mini_batches); }
  };
  int64_t steps = 0;
  double seconds = 0;           // of the counted steps
  double spread = 0;            // interquartile range of the steps' times over their median; 0: unknown
  std::vector<Worker> workers;  // in worker order: their ranges of ESTs are consecutive

  // Returns nothing if the event is of another kind or unusable: no step, a worker without a mini-batch, invalid
  // times.
  static std::optional<StageSpeed> from_event(const Json& event);

  int64_t num_workers() const { return static_cast<int64_t>(workers.size()); }
  double step_seconds() const { return seconds / static_cast<double>(steps); }
  double compute_seconds() const;   // of the slowest worker per step
  double exchange_seconds() const;  // the rest of the step; never below 0
  int64_t partial_sums() const;     // the ranges' contribution to the exchange
};

// Returns for each worker the factor by which its mini-batches would have taken longer if all workers had computed all
// the time. `crowding`: crowding[w - 1] as in plan::PlannedJob; with at most one entry the factors are 1.
std::vector<double> crowded_all_the_time(const StageSpeed& stage, const std::vector<double>& crowding);

}  // namespace estrain::profile
