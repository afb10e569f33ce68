#pragma once
// Sums in 32 lanes: the rule of batch_norm.h and layer_norm.h on vectors of any width, for code compiled per
// instruction set.

#include "kernels/loops/walks.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::ESTRAIN_ISA {

using portable::kLaneBlock;
using portable::kLanes;
static constexpr int kLaneVectors = static_cast<int>(kLanes / static_cast<int64_t>(width));

#define ESTRAIN_INLINE static inline __attribute__((always_inline))

using LaneNumbers = int32_t __attribute__((vector_size(sizeof(Floats))));

// 0, 1, 2, ... from `begin`. A table, since the compiler would build a constant vector lane by lane.
alignas(64) static constexpr int32_t counting[kLanes] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                         11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                         22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
ESTRAIN_INLINE LaneNumbers count_from(size_t begin) {
  LaneNumbers lanes;
  __builtin_memcpy(&lanes, counting + begin, sizeof(lanes));
  return lanes;
}

// The first n lanes of `a`, the remaining lanes of `b`.
ESTRAIN_INLINE Floats blend(size_t n, Floats a, Floats b) { return count_from(0) < static_cast<int32_t>(n) ? a : b; }

// The new value of lanes that took a part of an array: lanes after the array's end keep the old value.
ESTRAIN_INLINE Floats taken(Whole, Floats next, Floats) { return next; }
ESTRAIN_INLINE Floats taken(Tail tail, Floats next, Floats before) { return blend(tail.n, next, before); }

// Rotates: lane l gets lane (l + half) % width.
template <int half, typename Vector>
ESTRAIN_INLINE Vector turned(Vector x) {
  constexpr size_t lanes = sizeof(Vector) / sizeof(float);
  if constexpr (lanes == 16) {
    return __builtin_shufflevector(x, x, half, half + 1, half + 2, half + 3, half + 4, half + 5, half + 6, half + 7,
                                   half + 8, half + 9, half + 10, half + 11, half + 12, half + 13, half + 14,
                                   half + 15);
  } else if constexpr (lanes == 8) {
    return __builtin_shufflevector(x, x, half, half + 1, half + 2, half + 3, half + 4, half + 5, half + 6, half + 7);
  } else {
    return __builtin_shufflevector(x, x, half, half + 1, half + 2, half + 3);
  }
}

// Adds lanes l and l + 16, then + 8, + 4, + 2, + 1; returns the total in all lanes.
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
  if constexpr (width > 8) sum = sum + turned<8>(sum);
  if constexpr (width > 4) sum = sum + turned<4>(sum);
  sum = sum + turned<2>(sum);
  return sum + turned<1>(sum);
}

// The lanes of `sums` parallel sums.
template <int sums>
struct Lanes {
  Floats v[sums][kLaneVectors];

  ESTRAIN_INLINE Lanes zero() {
    Lanes lanes;
#pragma GCC unroll 2
    for (int s = 0; s < sums; ++s) {
#pragma GCC unroll 8
      for (int i = 0; i < kLaneVectors; ++i) lanes.v[s][i] = broadcast(0);
    }
    return lanes;
  }

  // Lane l takes the terms of positions l, l + 32, ... below `length`: step(position, part, lanes of each sum).
  template <typename Step>
  inline __attribute__((always_inline)) void take(int64_t length, Step step) {
    int64_t p = 0;
    for (; p + kLanes <= length; p += kLanes) {
#pragma GCC unroll 8
      for (int i = 0; i < kLaneVectors; ++i) one<Whole>(i, p + i * static_cast<int64_t>(width), Whole{}, step);
    }
    if (p == length) return;
#pragma GCC unroll 8
    for (int i = 0; i < kLaneVectors; ++i) {
      const int64_t at = p + i * static_cast<int64_t>(width);
      if (at + static_cast<int64_t>(width) <= length) {
        one(i, at, Whole{}, step);
      } else if (at < length) {
        one(i, at, Tail{static_cast<size_t>(length - at)}, step);
      }
    }
  }

  // Adds the combined lanes to the totals; the first block's sums are the first totals.
  inline __attribute__((always_inline)) void finish_block(bool first, float (&totals)[sums]) const {
#pragma GCC unroll 2
    for (int s = 0; s < sums; ++s) {
      const float sum = lane_total(v[s])[0];
      totals[s] = first ? sum : totals[s] + sum;
    }
  }

 private:
  template <typename Part, typename Step>
  inline __attribute__((always_inline)) void one(int i, int64_t at, Part part, Step step) {
    Floats before[sums], next[sums];
#pragma GCC unroll 2
    for (int s = 0; s < sums; ++s) next[s] = before[s] = v[s][i];
    step(at, part, next);
#pragma GCC unroll 2
    for (int s = 0; s < sums; ++s) v[s][i] = taken(part, next[s], before[s]);
  }
};

// The square root of a float, rounded as in vectors.
ESTRAIN_INLINE float square_root_of(float x) { return square_root(broadcast(x))[0]; }

}  // namespace estrain::kernels::ESTRAIN_ISA
