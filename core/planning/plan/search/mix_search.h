#pragma once
// Finds the best plan if more than the pace counts: with devices of different speeds that slow each other down, moving
// work from a slow device to a fast device can shorten the step at the same pace. The pace-by-pace search of best_plan
// does not see this.
//
// Branch and bound over the number of ESTs on each device, treating the devices of a group alike. For promising numbers
// the search then orders the ranges for the fewest partial sums.

#include <cstdint>
#include <vector>

#include "core/planning/plan/search/exact_split.h"
#include "core/planning/plan/search/figure.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {

class MixSearch {
 public:
  MixSearch(const Job& job, const Fleet& fleet);

  // Stores a better plan in `best` and `split` if a better plan exists. Subtracts its steps from `budget`; returns
  // false if the search was cut short.
  bool run(Figure& best, std::vector<Share>& split, int64_t& budget);

 private:
  // The remaining devices: `left` of `group`, each with at most `most` ESTs, and all later groups.
  struct Position {
    size_t group;
    int64_t left, most;
  };
  void visit(Position at, int64_t ests, int64_t workers, Load load);
  bool may_be_better(size_t next, int64_t ests, int64_t workers, int64_t most_workers, Load load) const;
  void order_ranges(int64_t workers, Load load);
  const DeviceGroup& group(size_t index) const;

  const Job& job_;
  const Fleet& fleet_;
  ExactSplit exact_;
  Figure best_;
  std::vector<Share> split_;
  std::vector<Share> chosen_;          // the current path of the search
  std::vector<int64_t> devices_from_;  // [i]: devices of the i-th fastest group and all slower groups
  int64_t budget_ = 0;
  bool complete_ = true;
};

}  // namespace estrain::plan
