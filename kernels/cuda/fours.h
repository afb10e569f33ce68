#pragma once
// Arrays with four neighbouring elements for each thread: one 16-byte access if the arrays are aligned to 16 bytes,
// otherwise four accesses. All loads of a thread precede the thread's stores.

#include "kernels/cuda/grid.h"

namespace estrain::kernels::cuda {

struct alignas(16) Four {
  float of[4];
};

static inline Grid grid_of_fours(int64_t n) { return grid_for((n + 3) / 4); }

// A null pointer counts as aligned.
template <typename... Arrays>
static inline bool are_aligned(const Arrays*... arrays) {
  return ((reinterpret_cast<uintptr_t>(arrays) % alignof(Four) == 0) && ...);
}

// The thread's elements of [0, n): `count` elements from `at` on.
struct Place {
  int64_t at;
  int count;   // <= 0: no elements
  bool whole;  // four elements at an aligned address
};
// `aligned`: are_aligned() of all arrays of the kernel.
__device__ inline Place place_of(int64_t n, bool aligned) {
  const int64_t at = 4 * thread_index(), left = n - at;
  return {at, left < 4 ? static_cast<int>(left) : 4, aligned && left >= 4};
}

// Elements past `count` are 0.
__device__ inline Four load(const float* x, const Place& place) {
  if (place.whole) return *reinterpret_cast<const Four*>(x + place.at);
  Four out = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < place.count) out.of[k] = x[place.at + k];
  }
  return out;
}

__device__ inline void store(float* x, const Place& place, const Four& values) {
  if (place.whole) {
    *reinterpret_cast<Four*>(x + place.at) = values;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < place.count) x[place.at + k] = values.of[k];
  }
}

}  // namespace estrain::kernels::cuda
