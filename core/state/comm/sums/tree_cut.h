#pragma once
// Where a node of the reduction tree (reduction_tree.h) is cut, for sums that are not of gradients too.

#include <bit>
#include <cstdint>

namespace estrain::comm {

// Where tree(lo, hi) over more than one EST is cut: lo + m, m the largest power of two below hi - lo.
inline int64_t middle_of(int64_t lo, int64_t hi) {
  return lo + static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(hi - lo)) / 2);
}

}  // namespace estrain::comm
