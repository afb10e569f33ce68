#pragma once
// How fast a stage of a run went, as the launcher logs it (`stage_speed` of events.jsonl), and what that says about the
// devices it ran on.
//
// Workers that have done their ESTs wait, and leave memory and cores to the others. So of workers that finish at times
// f_1 <= f_2 <= …, the one that finishes as the k-th was crowded by W - 1 others up to f_1 only, by W - 2 up to f_2,
// and so on. A stage whose ranges are of unequal length is counted back to what it would have been with all computing
// all the time.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace estrain::profile {

struct StageSpeed {
  struct Worker {
    std::string kind;
    int64_t ests = 0;
    int64_t mini_batches = 0;
    double computing_seconds = 0;  // within them; waiting for others is no part of it
    double mini_batch_seconds() const { return computing_seconds / static_cast<double>(mini_batches); }
  };
  int64_t steps = 0;
  double seconds = 0;           // of these steps
  double spread = 0;            // middle half of the steps' times over their median; 0: not known
  std::vector<Worker> workers;  // in worker order: their ranges of ESTs follow one another

  // Nothing where the event is not one, or holds nothing to learn from: no step, a worker without a mini-batch, numbers
  // that are no times.
  static std::optional<StageSpeed> from_event(const Json& event);

  int64_t num_workers() const { return static_cast<int64_t>(workers.size()); }
  double step_seconds() const { return seconds / static_cast<double>(steps); }
  double compute_seconds() const;   // of the slowest worker in a step
  double exchange_seconds() const;  // the rest of the step; never below 0
  int64_t partial_sums() const;     // that the ranges pass on to the exchange
};

// For each worker: how many times longer its mini-batches would have taken had all computed all the time. `crowding`:
// crowding[w - 1] as in plan::Job; with one entry or none there is nothing to count back.
std::vector<double> crowded_all_the_time(const StageSpeed& stage, const std::vector<double>& crowding);

}  // namespace estrain::profile
