#pragma once
// The best plan where not only the pace counts: devices of unlike speed that slow each other down. Then work that moves
// from a slow device to a fast one shortens the step though the pace stays, and the search pace by pace of best_plan
// does not see it.
//
// Branch and bound over how many ESTs each device takes, the devices of a group alike; then the order of the ranges
// with the fewest partial sums, for numbers that may be better than the best plan.

#include <cstdint>
#include <vector>

#include "core/plan/exact_split.h"
#include "core/plan/figure.h"
#include "core/plan/fleet.h"

namespace estrain::plan {

class MixSearch {
 public:
  MixSearch(const Job& job, const Fleet& fleet);

  // Puts a better plan into `best` and `split` where there is one. Takes its steps off `budget`; false if it did not
  // suffice for all.
  bool run(Figure& best, std::vector<Share>& split, int64_t& budget);

 private:
  // Groups from `group` on, `left` devices of it, each with at most `most` ESTs.
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
  std::vector<Share> chosen_;          // on the way to where the search is
  std::vector<int64_t> devices_from_;  // [i]: of the i-th fastest group and all slower ones
  int64_t budget_ = 0;
  bool complete_ = true;
};

}  // namespace estrain::plan
