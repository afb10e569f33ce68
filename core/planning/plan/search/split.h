#pragma once
// Splits all ESTs of a job over devices that host given numbers of ESTs, with few partial sums: exactly, or greedily
// where that takes too long.

#include <cstdint>
#include <vector>

#include "core/planning/plan/plan.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {

// Finds, for each number of workers, the split with the fewest partial sums, for devices that host given numbers of
// ESTs.
//
// A dynamic program over the position of the cut and the devices used so far. The number of partial sums is a sum over
// ranges, and each range passes on at least one, so a state keeps the excess: the sums beyond one per worker. Each
// range goes to the smallest device with room for the range: a plan that uses this device elsewhere could use there the
// device taken here. A state therefore needs only the position and the number of used devices of each size.
class ExactSplit {
 public:
  explicit ExactSplit(int64_t ests) : ests_(ests) {}

  struct Bounds {
    int64_t workers = 0;  // limit on the number of workers
    int64_t excess = 0;   // limit on the partial sums beyond one per worker
  };
  // `capacities` are largest first. Subtracts its steps from `budget`; false, without splits, if this is too small.
  bool run(const std::vector<Capacity>& capacities, Bounds limits, int64_t& budget);

  // Returns the last run's least excess with exactly this many workers; -1 if no such split is within the limits.
  int64_t excess(int64_t workers) const;
  std::vector<WorkerShare> split(int64_t workers) const;

 private:
  // Devices of any group with the same number of ESTs.
  struct Class {
    int64_t ests = 0, count = 0;
    int64_t stride = 0;  // weight of the used count in the number of a state
    std::vector<Capacity> groups;
  };
  struct Cell {
    uint16_t excess = kNone;
    uint16_t length = 0;  // of the range with this end
    uint32_t state = 0;   // the state before it
  };
  struct EstSpan {
    int64_t length;
    int64_t excess;
    size_t smallest_class;
  };
  static constexpr uint16_t kNone = UINT16_MAX;
  static constexpr int64_t kMostCells = 1 << 20;

  bool lay_out(const std::vector<Capacity>& capacities);
  void number_states();
  void extend(int64_t position);
  void list_ranges(int64_t position);
  int64_t used(int64_t state, size_t in_class) const;
  Cell& cell(int64_t position, int64_t state) { return cells_[static_cast<size_t>(position * states_ + state)]; }
  const Cell& cell(int64_t position, int64_t state) const {
    return cells_[static_cast<size_t>(position * states_ + state)];
  }
  int64_t best_state(int64_t workers) const;

  int64_t ests_;
  Bounds limits_;
  std::vector<Class> classes_;  // smallest first
  int64_t states_ = 0;
  std::vector<int64_t> workers_of_, room_left_;  // of each state
  std::vector<int64_t> taken_from_;  // [state * classes + smallest class]: the next state; -1: no device is left
  std::vector<Cell> cells_;          // position by position
  std::vector<EstSpan> ranges_;      // from the current position
  int64_t work_ = 0;
};

// Splits all ESTs over given devices within their capacities, with few partial sums. Works from left to right and
// aligns each cut as far as the remaining room allows. Linear in the number of devices; not always optimal.
//
// Returns the best result over several orders of the devices and ways to spend the spare room. `capacities` are largest
// first; at least `workers` devices are needed, and the first `workers` must be able to host all ESTs.
std::vector<WorkerShare> greedy_split(int64_t ests, int64_t workers, const std::vector<Capacity>& capacities);

}  // namespace estrain::plan
