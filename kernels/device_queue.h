#pragma once
// A device beside the CPU, as portable kernels see it: kernels behind function pointers (portable/device_kernels.h), a
// queue that they are put into, and scratch memory. Nothing here needs the device's headers.

#include <stddef.h>

namespace estrain::kernels {

namespace portable {
struct DeviceKernels;
}
struct DeviceUpdates;

// All work goes to one stream, in order; nothing waits for the host. Not thread-safe.
struct DeviceQueue {
  const portable::DeviceKernels* kernels = nullptr;
  const DeviceUpdates* updates = nullptr;  // device_updates.h
  void* stream = nullptr;                  // CUDA: a cudaStream_t
  int processors = 100;  // of the device: how much it does side by side. Decides how work is laid out, no bit
  int layout = 0;  // 0: kernels lay out work in the way that promises most. Others, for tests: in one way or another

  // Scratch memory of the device, at least 256-byte aligned, for work put into the stream between the two calls: the
  // memory may be handed to somebody else as soon as that work is done. allocate() throws where there is none.
  void* (*allocate)(const DeviceQueue& queue, size_t bytes) = nullptr;
  void (*release)(const DeviceQueue& queue, void* memory) = nullptr;
  void* owner = nullptr;  // whatever the two functions want
};

}  // namespace estrain::kernels
