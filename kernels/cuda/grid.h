#pragma once
// Launches kernels, and provides the CUDA language features of the kernels. Every .cu file here is compiled twice: by
// nvcc, and for the tests as C++ with ESTRAIN_CUDA_EMULATION, a header that runs a grid's threads on the CPU.

#include <stddef.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include ESTRAIN_CUDA_EMULATION
#endif

#include "kernels/device_queue.h"

namespace estrain::kernels::cuda {

static constexpr unsigned kThreads = 256;      // per block, for independent threads
static constexpr unsigned kChainThreads = 64;  // per block, for few long threads: spread over processors
static constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

// `blocks` blocks of threads.x by threads.y threads; for no blocks, launch() does nothing.
struct Grid {
  int64_t blocks = 0;
  unsigned threads_x = kThreads, threads_y = 1;
};

// Enough blocks for one thread per element of [0, n).
static inline Grid grid_for(int64_t n) { return {(n + kThreads - 1) / kThreads}; }
static inline Grid grid_of_chains(int64_t n) { return {(n + kChainThreads - 1) / kChainThreads, kChainThreads}; }

// Throws std::runtime_error, naming the kernel, if the launch or an earlier call failed.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, const DeviceQueue& queue, Grid grid, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (grid.blocks <= 0) return;
  if (grid.blocks > kMostBlocks) {
    throw std::runtime_error(std::string("kernel ") + name + " of " + std::to_string(grid.blocks) +
                             " blocks cannot be launched: a grid has fewer than 2^31");
  }
#ifdef __CUDACC__
  if (const cudaError_t earlier = cudaGetLastError(); earlier != cudaSuccess) {
    throw std::runtime_error(std::string("an earlier call failed, before kernel ") + name + ": " +
                             cudaGetErrorString(earlier));
  }
  kernel<<<static_cast<unsigned>(grid.blocks), dim3(grid.threads_x, grid.threads_y), 0,
           static_cast<cudaStream_t>(queue.stream)>>>(static_cast<Parameters>(arguments)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("kernel ") + name + " of " + std::to_string(grid.blocks) +
                             " blocks cannot be launched, or work before it failed: " + cudaGetErrorString(error));
  }
#else
  emulation::launch(queue.stream, name, {grid.blocks, grid.threads_x, grid.threads_y},
                    [=] { kernel(static_cast<Parameters>(arguments)...); });
#endif
}

// Returns this thread's index in the whole grid of blocks of kThreads, or of kChainThreads.
__device__ inline int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ inline int64_t chain_index() { return static_cast<int64_t>(blockIdx.x) * kChainThreads + threadIdx.x; }

// Scratch memory until the end of the scope; work queued within the scope may use the memory.
template <typename T>
class Scratch {
 public:
  Scratch(const DeviceQueue& queue, int64_t count)
      : queue_(queue), memory_(count <= 0 ? nullptr : queue.allocate(queue, static_cast<size_t>(count) * sizeof(T))) {}
  ~Scratch() {
    if (memory_ != nullptr) queue_.release(queue_, memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return static_cast<T*>(memory_); }

 private:
  const DeviceQueue& queue_;
  void* memory_;
};

}  // namespace estrain::kernels::cuda
