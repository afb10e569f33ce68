#pragma once
// Issues loads ahead of their use, so that a thread with terms in sequence waits for memory only once in several
// terms.

#include "kernels/cuda/value.h"

namespace estrain::kernels::cuda {

// Calls take(load(0)), take(load(1)), ..., take(load(n - 1)). Loads `ahead` terms before the first take().
template <int ahead, typename Load, typename Take>
__device__ inline void in_order(int64_t n, Load load, Take take) {
  using Value = decltype(load(n));
  int64_t i = 0;
  for (; i + ahead <= n; i += ahead) {
    Value terms[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) terms[k] = load(i + k);
#pragma unroll
    for (int k = 0; k < ahead; ++k) take(terms[k]);
  }
  if (i >= n) return;
  const int left = static_cast<int>(n - i);
  Value terms[ahead] = {};
#pragma unroll
  for (int k = 0; k < ahead; ++k) {
    if (k < left) terms[k] = load(i + k);
  }
#pragma unroll
  for (int k = 0; k < ahead; ++k) {
    if (k < left) take(terms[k]);
  }
}

// The neutral element of addition: x + kNothing has the bits of x, also for +0 and -0.
constexpr float kNothing = -0.0f;

// load(0) + load(1) + ... + load(n - 1), in order; +0 if n is 0.
template <int ahead, typename Load>
__device__ inline float total_of(int64_t n, Load load) {
  float total = kNothing;
  in_order<ahead>(n, load, [&](float x) { total = total + x; });
  return n == 0 ? 0.0f : total;
}

}  // namespace estrain::kernels::cuda
