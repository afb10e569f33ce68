#pragma once
// The queue of the portable kernels on a GPU. Not thread-safe.

#include <c10/core/Device.h>

#include "kernels/device_queue.h"

namespace estrain::cuda {

class KernelQueue {
 public:
  explicit KernelQueue(c10::DeviceIndex index);

  // Returns the queue on LibTorch's current stream, with LibTorch's allocator. The next call may change the stream.
  const kernels::DeviceQueue* current();

 private:
  const c10::DeviceIndex index_;
  kernels::DeviceQueue queue_;
};

}  // namespace estrain::cuda
