#include "core/engine/cuda/portable/kernel_queue.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda/kernels.h"

namespace estrain::cuda {
namespace {

void* allocate(const kernels::DeviceQueue& queue, size_t bytes) {
  return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(queue.stream));
}

void release(const kernels::DeviceQueue&, void* memory) { c10::cuda::CUDACachingAllocator::raw_delete(memory); }

int processors_of(c10::DeviceIndex index) {
  int processors = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, index));
  return processors;
}

}  // namespace

KernelQueue::KernelQueue(c10::DeviceIndex index)
    : index_(index),
      queue_{.kernels = &kernels::cuda::device_kernels,
             .updates = &kernels::cuda::device_updates,
             .processors = processors_of(index),
             .allocate = allocate,
             .release = release} {}

const kernels::DeviceQueue* KernelQueue::current() {
  queue_.stream = c10::cuda::getCurrentCUDAStream(index_).stream();
  return &queue_;
}

}  // namespace estrain::cuda
