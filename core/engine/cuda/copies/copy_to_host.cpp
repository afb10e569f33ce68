#include "core/engine/cuda/copies/copy_to_host.h"

#include <c10/cuda/CUDAException.h>

namespace estrain::cuda {

Copied copy_to_host(void* host, const void* device, size_t bytes, c10::cuda::CUDAStream by) {
  c10::cuda::CUDAEvent computed(cudaEventDisableTiming);
  auto copied = std::make_shared<c10::cuda::CUDAEvent>(cudaEventDisableTiming | cudaEventBlockingSync);
  computed.record(c10::cuda::getCurrentCUDAStream(by.device_index()));
  computed.block(by);
  C10_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, by));
  copied->record(by);
  return copied;
}

}  // namespace estrain::cuda
