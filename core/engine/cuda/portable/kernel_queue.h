#pragma once
// The queue of the portable kernels on a GPU.

#include <c10/core/Device.h>

#include "kernels/device_queue.h"

namespace estrain::cuda {

class KernelQueue {
 public:
  explicit KernelQueue(c10::DeviceIndex index);

  // Returns LibTorch's current stream and the stream's allocator.
  const kernels::DeviceQueue* current();

 private:
  const c10::DeviceIndex index_;
  kernels::DeviceQueue queue_;
};

}  // namespace estrain::cuda
