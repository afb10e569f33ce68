#pragma once
// Sums in 32 lanes: a lane of kernels/portable/order.h is a lane of a warp. Blocks of threads are 32 wide, so a row of
// threads is a warp. All lanes of a warp must make these calls together.

#include "kernels/cuda/ahead.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::cuda {

static_assert(portable::kLanes == 32);

static constexpr unsigned kAllLanes = 0xFFFFFFFFu;

__device__ inline float of_lane(float x, int lane) { return __shfl_sync(kAllLanes, x, lane); }

// Adds lanes l and l + 16, then + 8, + 4, + 2, + 1; returns the total in all lanes.
__device__ inline float lane_total(float x) {
#pragma unroll
  for (unsigned half = 16; half > 0; half /= 2) x = x + __shfl_down_sync(kAllLanes, x, half);
  return of_lane(x, 0);
}

// Returns the largest lane, in all lanes. NaN only if all lanes are NaN.
__device__ inline float lane_largest(float x) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) x = greater(__shfl_xor_sync(kAllLanes, x, half), x);
  return x;
}

// x[0] + x[1] + ... + x[n - 1], in order, in all lanes of a warp; +0 if n is 0.
__device__ inline float warp_total(const float* x, int64_t n) {
  constexpr int kAhead = 8;
  float total = kNothing;
  for (int64_t first = 0; first < n; first += kAhead * portable::kLanes) {
    float terms[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t i = first + k * portable::kLanes + threadIdx.x;
      terms[k] = i < n ? x[i] : kNothing;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k * portable::kLanes >= n) break;
#pragma unroll
      for (int lane = 0; lane < portable::kLanes; ++lane) total = total + of_lane(terms[k], lane);
    }
  }
  return n == 0 ? 0.0f : total;
}

// Calls add(load(i), lanes) for i = begin + lane, + 32, ... below end; each lane of the sums starts at +0.
template <int sums, typename Load, typename Add>
__device__ inline void block_sums(int64_t begin, int64_t end, float (&out)[sums], Load load, Add add) {
#pragma unroll
  for (int s = 0; s < sums; ++s) out[s] = 0;
  const int64_t first = begin + threadIdx.x;
  const int64_t n = first < end ? portable::divide_up(end - first, portable::kLanes) : 0;
  in_order<8>(
      n, [&](int64_t k) { return load(first + k * portable::kLanes); }, [&](auto term) { add(term, out); });
#pragma unroll
  for (int s = 0; s < sums; ++s) out[s] = lane_total(out[s]);
}

// Sums of n terms in blocks of kLaneBlock. The warps take turns with the blocks; the first block's sum is the first
// total, later sums are added in order. All threads of a thread block must call; all threads get the sums.
constexpr int kMostWarps = 8;
template <int sums, typename Load, typename Add>
__device__ inline void row_sums(int64_t n, float (&totals)[sums], Load load, Add add) {
  __shared__ float of_blocks[kMostWarps][sums];
  const int warps = static_cast<int>(blockDim.y), warp = static_cast<int>(threadIdx.y);
  const int64_t blocks = n <= portable::kLaneBlock ? 1 : portable::divide_up(n, portable::kLaneBlock);
  for (int64_t first = 0; first < blocks; first += warps) {
    const int64_t begin = (first + warp) * portable::kLaneBlock;
    const int64_t end = begin + portable::kLaneBlock < n ? begin + portable::kLaneBlock : n;
    float own[sums];
    block_sums<sums>(begin, end, own, load, add);
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
      for (int s = 0; s < sums; ++s) of_blocks[warp][s] = own[s];
    }
    __syncthreads();
    for (int w = 0; w < warps && first + w < blocks; ++w) {
#pragma unroll
      for (int s = 0; s < sums; ++s) totals[s] = first + w == 0 ? of_blocks[w][s] : totals[s] + of_blocks[w][s];
    }
  }
  __syncthreads();
}

// Calls take(i, load(i)) for this thread's elements of a row of n, with several loads ahead of their use.
template <typename Load, typename Take>
__device__ inline void for_row(int64_t n, Load load, Take take) {
  const int64_t first = threadIdx.y * portable::kLanes + threadIdx.x, threads = portable::kLanes * blockDim.y;
  int64_t i = first;
  in_order<8>(
      first < n ? portable::divide_up(n - first, threads) : 0, [&](int64_t k) { return load(first + k * threads); },
      [&](auto term) {
        take(i, term);
        i += threads;
      });
}

// Returns the maximum over the block's threads, in all threads.
__device__ inline float block_largest(float x) {
  __shared__ float of_warps[kMostWarps];
  x = lane_largest(x);
  __syncthreads();
  if (threadIdx.x == 0) of_warps[threadIdx.y] = x;
  __syncthreads();
  for (unsigned w = 0; w < blockDim.y; ++w) x = greater(of_warps[w], x);
  return x;
}

// Returns the warps for a row of n elements.
static inline unsigned warps_for(int64_t n) {
  const int64_t blocks = portable::divide_up(n, portable::kLaneBlock);
  return blocks <= 1 ? 1 : blocks < kMostWarps ? static_cast<unsigned>(blocks) : kMostWarps;
}
// One row per block of threads.
static inline Grid grid_of_rows(int64_t rows, int64_t n) { return {rows, 32, warps_for(n)}; }

// Several warps per block of threads, each warp with its own item.
constexpr unsigned kWarpsOfBlock = 8;
static inline Grid grid_of_warps(int64_t items) {
  return {(items + kWarpsOfBlock - 1) / kWarpsOfBlock, 32, kWarpsOfBlock};
}
__device__ inline int64_t warp_index() { return static_cast<int64_t>(blockIdx.x) * kWarpsOfBlock + threadIdx.y; }

}  // namespace estrain::kernels::cuda
