#pragma once
// A copy of a region of host memory on a GPU.

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>

#include "core/engine/device/arrivals.h"
#include "core/engine/device/device.h"

namespace estrain::cuda {

// A copy from a GPU to the host, in parallel with the GPU's computations.
using Copied = std::shared_ptr<c10::cuda::CUDAEvent>;

// Copies `bytes` bytes from `device` to `host` on the stream `by`, after all work queued on the current stream. Returns
// the event after the copy; a thread waiting for the event sleeps. Both memories must stay valid until the event. A
// copy to memory that is not page-locked is complete when this function returns.
Copied copy_to_host(void* host, const void* device, size_t bytes, c10::cuda::CUDAStream by);

// The same, if the GPU's kernels write to `from` in the memory of the host: the host copies, in the order of the
// stream.
Copied copy_within_host(void* to, const void* from, size_t bytes, c10::cuda::CUDAStream by);

class CudaMirror : public device::Mirror {
 public:
  // Copies to the host use the stream `to_host` and the queue `arrivals`.
  CudaMirror(size_t bytes, c10::cuda::CUDAStream to_host, device::Arrivals& arrivals);

  const c10::Storage& storage() const override { return storage_; }
  void load(std::byte* host) override;
  void store(std::byte* host, std::function<void()> then) override;

 private:
  size_t bytes_;
  c10::cuda::CUDAStream to_host_;
  device::Arrivals& arrivals_;
  c10::Storage storage_;
};

}  // namespace estrain::cuda
