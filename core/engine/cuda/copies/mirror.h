#pragma once
// A copy of a region of host memory on a GPU.

#include <c10/cuda/CUDAStream.h>

#include "core/engine/device/arrivals.h"
#include "core/engine/device/device.h"

namespace estrain::cuda {

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
