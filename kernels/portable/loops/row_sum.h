#pragma once
// Sums along rows by the rule of reduction.h for inner == 1, for code compiled per instruction set.

#include "kernels/portable/loops/lanes.h"

namespace estrain::kernels::ESTRAIN_ISA {

// step(lanes, i, part) returns the new value of the lanes for elements i, i + 1, ... and must not change lanes beyond
// the part. [begin, end) is within one block.
template <typename Step>
static inline __attribute__((always_inline)) float block_sum(int64_t begin, int64_t end, Step step) {
  Floats lanes[kLaneVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kLaneVectors; ++v) lanes[v] = broadcast(0);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) lanes[v] = step(lanes[v], i + v * static_cast<int64_t>(width), Whole{});
  }
#pragma GCC unroll 8
  for (int v = 0; v < kLaneVectors; ++v, i += static_cast<int64_t>(width)) {
    if (i + static_cast<int64_t>(width) <= end) {
      lanes[v] = step(lanes[v], i, Whole{});
    } else if (i < end) {
      lanes[v] = step(lanes[v], i, Tail{static_cast<size_t>(end - i)});
    }
  }
  return lane_total(lanes)[0];
}

template <typename Step>
static inline __attribute__((always_inline)) float row_sum(int64_t n, Step step) {
  float total = block_sum(0, n < kLaneBlock ? n : kLaneBlock, step);
  for (int64_t begin = kLaneBlock; begin < n; begin += kLaneBlock) {
    total += block_sum(begin, begin + kLaneBlock < n ? begin + kLaneBlock : n, step);
  }
  return total;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
