#pragma once
// Counts the partial sums that a range of ESTs leaves for the exchange: the smallest number of nodes of the reduction
// tree with exactly this range as their cover.
//
// state/comm/sums/reduction_tree.h defines the tree: a node over [lo, hi) is cut at lo + m, with m the largest power of
// two below hi - lo. Padded to the next power of two, the tree is the perfect binary tree without the nodes that begin
// after the last EST. Every node therefore begins at a multiple of its padded size, and the count equals the number of
// aligned powers of two in the range: ones in binary numbers. A range equal to a node passes on one sum. 12 ESTs cut in
// the middle pass on 4 sums in all; cut at 8, only 2.

#include <bit>
#include <cstdint>
#include <functional>

namespace estrain::plan {

// For 0 <= begin < end <= ests.
inline int64_t partial_sums(int64_t ests, int64_t begin, int64_t end) {
  if (begin == 0 && end == ests) return 1;
  if (end == ests) {  // the range may extend over the padding
    int64_t sums = 0;
    for (int64_t node = begin; node < ests; node += node & -node) ++sums;
    return sums;
  }
  const auto highest_difference = std::bit_floor(static_cast<uint64_t>(begin ^ end));
  const auto middle = end & ~static_cast<int64_t>(highest_difference - 1);  // nodes grow up to here, then shrink
  return std::popcount(static_cast<uint64_t>(middle - begin)) + std::popcount(static_cast<uint64_t>(end - middle));
}

// Returns the partial sums of consecutive ranges starting at EST 0; `size` gives the ESTs of each.
template <typename Ranges, typename Size>
int64_t partial_sums_of(int64_t ests, const Ranges& ranges, Size size) {
  int64_t sums = 0, begin = 0;
  for (const auto& range : ranges) {
    const int64_t end = begin + std::invoke(size, range);
    sums += partial_sums(ests, begin, end);
    begin = end;
  }
  return sums;
}

// Returns the position in [first, last], 1 <= first <= last, with the largest power of two as a divisor: a cut at this
// position splits the fewest nodes.
inline int64_t most_aligned(int64_t first, int64_t last) {
  const auto highest_difference = std::bit_floor(static_cast<uint64_t>((first - 1) ^ last));
  return last & ~static_cast<int64_t>(highest_difference - 1);
}

}  // namespace estrain::plan
