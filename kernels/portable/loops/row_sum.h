#pragma once
// Sums along rows by the rule of reduction.h for inner == 1, for code compiled per instruction set.

#include "kernels/portable/loops/lanes.h"

namespace estrain::kernels::ESTRAIN_ISA {

// 0 to width - 1, twice: from entry h on, the lanes of a vector turned by h.
alignas(64) static const int32_t turned_lanes[2 * 16] = {
    0 % width, 1 % width, 2 % width,  3 % width,  4 % width,  5 % width,  6 % width,  7 % width,
    8 % width, 9 % width, 10 % width, 11 % width, 12 % width, 13 % width, 14 % width, 15 % width,
    0 % width, 1 % width, 2 % width,  3 % width,  4 % width,  5 % width,  6 % width,  7 % width,
    8 % width, 9 % width, 10 % width, 11 % width, 12 % width, 13 % width, 14 % width, 15 % width};

// Lane l + half in lane l.
ESTRAIN_INLINE Floats turned(Floats x, size_t half) {
  LaneNumbers from;
  __builtin_memcpy(&from, turned_lanes + half, sizeof from);
  return __builtin_shuffle(x, from);
}

// Lanes l and l + 16 added, then + 8, + 4, + 2, + 1; in all lanes.
ESTRAIN_INLINE Floats lane_total(const Floats (&lanes)[kLaneVectors]) {
  Floats v[kLaneVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kLaneVectors; ++i) v[i] = lanes[i];
#pragma GCC unroll 4
  for (int half = kLaneVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
  }
  Floats sum = v[0];
#pragma GCC unroll 4
  for (size_t half = width / 2; half > 0; half /= 2) sum = sum + turned(sum, half);
  return sum;
}

// step(lanes, i, part) is the new value of the lanes that take elements i, i + 1, ...; it leaves lanes beyond the part
// as they are. [begin, end) is within one block.
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
