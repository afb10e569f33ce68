#pragma once
// Launching kernels, and the part of CUDA's language that they use. Every .cu file here is compiled twice: by nvcc, and
// for the tests as C++ with ESTRAIN_CUDA_EMULATION, a header that runs a grid's threads on the CPU.

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#else
#include ESTRAIN_CUDA_EMULATION
#endif

#include "kernels/device_queue.h"

namespace estrain::kernels::cuda {

static constexpr unsigned kThreads = 256;  // of a block whose threads have nothing to do with each other

// `blocks` blocks of threads.x by threads.y threads; no blocks: nothing is launched.
struct Grid {
  int64_t blocks = 0;  // less than 2^31
  unsigned threads_x = kThreads, threads_y = 1;
};

// Enough blocks for a thread each of [0, n).
static inline Grid grid_for(int64_t n) { return {(n + kThreads - 1) / kThreads}; }

// Throws std::runtime_error, naming the kernel, if it cannot be launched.
template <typename... Parameters, typename... Arguments>
void launch([[maybe_unused]] const char* name, [[maybe_unused]] const DeviceQueue& queue, Grid grid,
            void (*kernel)(Parameters...), Arguments... arguments) {
  if (grid.blocks <= 0) return;
#ifdef __CUDACC__
  kernel<<<static_cast<unsigned>(grid.blocks), dim3(grid.threads_x, grid.threads_y), 0,
           static_cast<cudaStream_t>(queue.stream)>>>(static_cast<Parameters>(arguments)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("kernel ") + name + " of " + std::to_string(grid.blocks) +
                             " blocks cannot be launched: " + cudaGetErrorString(error));
  }
#else
  auto body = [&] { kernel(static_cast<Parameters>(arguments)...); };
  emulation::run(
      grid.blocks, grid.threads_x, grid.threads_y, [](void* context) { (*static_cast<decltype(body)*>(context))(); },
      &body);
#endif
}

// This thread's index in the whole grid of blocks of kThreads.
__device__ inline int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

// Scratch memory until the end of the scope; work put into the queue meanwhile may use it.
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
