#pragma once
// A device other than the CPU, for portable kernels: a table of kernels (portable/calls/device_kernels.h), a work
// queue, and scratch memory. Does not need the device's headers.

#include <stddef.h>

namespace estrain::kernels {

namespace portable {
struct DeviceKernels;
}
struct DeviceUpdates;

// All work runs on one stream, in order; no call waits for the device. Not thread-safe.
struct DeviceQueue {
  const portable::DeviceKernels* kernels = nullptr;
  const DeviceUpdates* updates = nullptr;  // device_updates.h
  void* stream = nullptr;                  // CUDA: a cudaStream_t
  int processors = 100;                    // number of multiprocessors: affects the work distribution, but no bit
  int layout = 0;  // 0: kernels choose the fastest work distribution. Other values, for tests: force a certain one

  // Scratch memory of the device, at least 256-byte aligned, for work queued between allocate() and release(): later
  // work may reuse the memory. allocate() throws if the device has no memory left.
  void* (*allocate)(const DeviceQueue& queue, size_t bytes) = nullptr;
  void (*release)(const DeviceQueue& queue, void* memory) = nullptr;
  void* owner = nullptr;  // argument for the two functions
};

}  // namespace estrain::kernels
