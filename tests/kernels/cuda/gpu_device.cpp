// The first CUDA device of the process.

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/kernels.h"
#include "tests/kernels/cuda/device_under_test.h"

namespace estrain::kernels::test {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

void* allocate(const DeviceQueue& queue, size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(queue.stream)), "cudaMallocAsync");
  return memory;
}
void release(const DeviceQueue& queue, void* memory) {
  check(cudaFreeAsync(memory, static_cast<cudaStream_t>(queue.stream)), "cudaFreeAsync");
}

DeviceQueue queue = {.kernels = &cuda::device_kernels,
                     .updates = &cuda::device_updates,
                     .stream = nullptr,
                     .allocate = allocate,
                     .release = release};

}  // namespace

Execution on_device(int layout) {
  queue.layout = layout;
  check(cudaDeviceGetAttribute(&queue.processors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
  return {.device = &queue};
}
Execution on_cpu() { return {}; }
void* allocate_on_device(size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "cudaMalloc");
  return memory;
}
void release_on_device(void* memory) { cudaFree(memory); }
void copy_to_device(void* to, const void* from, size_t bytes) {
  if (bytes > 0) check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}
void copy_from_device(void* to, const void* from, size_t bytes) {
  check(cudaDeviceSynchronize(), "a kernel");
  if (bytes > 0) check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

}  // namespace estrain::kernels::test
