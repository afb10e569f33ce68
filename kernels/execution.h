#pragma once
// What a portable kernel runs on. No member leaves a trace in the bits.

#include "kernels/device_queue.h"
#include "kernels/isa.h"

namespace estrain::kernels {

struct Execution {
  Isa isa = best_isa();
  int threads = 1;
  // Runs task(context, i) for every i in [0, tasks), on up to `threads` threads, and returns when all are done. Null:
  // one after another on the calling thread.
  void (*run)(int tasks, void (*task)(void* context, int i), void* context) = nullptr;
  // Where the arrays lie in a device's memory: that device's queue, and a kernel's work is put into it. Null: the CPU.
  const DeviceQueue* device = nullptr;
};

}  // namespace estrain::kernels
