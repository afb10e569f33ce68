#pragma once
// The part of CUDA's language that kernels/cuda uses, on the CPU: the threads of a block are fibers that switch when a
// thread waits for another, so the kernels themselves run, not copies. Blocks run one after another, on one thread.
//
// The order in which threads run between two barriers, and the order of blocks, changes from launch to launch (forward,
// backward, in strides): a kernel that lacks a barrier gives different bits in one of the orders. If some threads wait
// at a barrier that other threads never reach, the process ends with a message.

#include <stdint.h>

#include <cstddef>

#include "tests/kernels/cuda/emulation/launch.h"

#define __global__ static
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace estrain::kernels::cuda {

struct GridIndex {
  unsigned x = 0, y = 0;
};
extern GridIndex threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __syncwarp();
namespace emulation {
// Returns the value passed by `lane` of the caller's warp.
uint32_t exchange(uint32_t mine, unsigned lane);
unsigned lane();
// Number of launched kernels.
int64_t launches();
}  // namespace emulation

// For 32-bit values.
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return __builtin_bit_cast(T,
                            emulation::exchange(__builtin_bit_cast(uint32_t, value), static_cast<unsigned>(lane) % 32));
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  const unsigned from = emulation::lane() + delta;
  return __shfl_sync(mask, value, static_cast<int>(from < 32 ? from : emulation::lane()));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return __shfl_sync(mask, value, static_cast<int>(emulation::lane() ^ static_cast<unsigned>(bits)));
}

inline int atomicAdd(int* to, int x) {
  const int before = *to;
  *to += x;
  return before;
}
inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long x) {
  const unsigned long long before = *to;
  *to += x;
  return before;
}
inline int atomicOr(int* to, int x) {
  const int before = *to;
  *to |= x;
  return before;
}

}  // namespace estrain::kernels::cuda
