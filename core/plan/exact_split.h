#pragma once
// The splits with the fewest partial sums for devices that host given numbers of ESTs, one for each number of workers.
//
// A dynamic program over the position of the cut and the devices used so far. Partial sums are a sum over ranges, each
// range passing on at least one, so a state keeps what is passed on beyond one for each worker (the excess). A range is
// given to the smallest device that hosts it: whatever another plan does with that device, it can do with the one that
// it takes instead. So a range has one device to go to, and only positions and how many of each size are used make up a
// state.

#include <cstdint>
#include <vector>

#include "core/plan/fleet.h"
#include "core/plan/plan.h"

namespace estrain::plan {

class ExactSplit {
 public:
  explicit ExactSplit(int64_t ests) : ests_(ests) {}

  struct Limits {
    int64_t workers = 0;  // splits over more are not looked for
    int64_t excess = 0;   // nor those that pass on more than one sum for each worker and this
  };
  // `capacities` are largest first. Takes its steps off `budget`; false, with no splits, if it would not suffice.
  bool run(const std::vector<Capacity>& capacities, Limits limits, int64_t& budget);

  // Of the last run: the least excess over exactly so many workers; -1 if there is no such split within the limits.
  int64_t excess(int64_t workers) const;
  std::vector<Share> split(int64_t workers) const;

 private:
  // Devices that host equally many ESTs, whatever their group.
  struct Class {
    int64_t ests = 0, count = 0;
    int64_t stride = 0;  // of the count used, in the number of a state
    std::vector<Capacity> groups;
  };
  struct Cell {
    uint16_t excess = kNone;
    uint16_t length = 0;  // of the range that leads here
    uint32_t state = 0;   // before it
  };
  struct Range {
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
  Limits limits_;
  std::vector<Class> classes_;  // smallest first
  int64_t states_ = 0;
  std::vector<int64_t> workers_of_, room_left_;  // of each state
  std::vector<int64_t> taken_from_;  // [state * classes + smallest class]: the state after; -1: none is left
  std::vector<Cell> cells_;          // position by position
  std::vector<Range> ranges_;        // from the position at hand
  int64_t work_ = 0;
};

}  // namespace estrain::plan
