#pragma once
// Where a node of the reduction tree (reduction_tree.h) is cut, also for sums of other values than gradients.

#include <bit>
#include <cstdint>

namespace estrain::comm {

// Returns the cut of tree(lo, hi) over more than one EST: lo + m, m the largest power of two below hi - lo.
inline int64_t middle_of(int64_t lo, int64_t hi) {
  return lo + static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(hi - lo)) / 2);
}

}  // namespace estrain::comm
