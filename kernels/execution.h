#pragma once
// Where and with how many threads a portable kernel runs. No member affects the bits.

#include "kernels/device_queue.h"
#include "kernels/isa.h"

namespace estrain::kernels {

struct Execution {
  Isa isa = best_isa();
  int threads = 1;
  // Runs task(context, i) for every i in [0, tasks), on up to `threads` threads, and returns when all are done. Null:
  // run in sequence on the calling thread.
  void (*run)(int tasks, void (*task)(void* context, int i), void* context) = nullptr;
  // If the arrays are in a device's memory: the queue of the device, which runs the kernel. Null: the CPU.
  const DeviceQueue* device = nullptr;
};

}  // namespace estrain::kernels
