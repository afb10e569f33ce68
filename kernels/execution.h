#pragma once
// What a portable kernel runs on. Neither member leaves a trace in the bits.

#include "kernels/isa.h"

namespace estrain::kernels {

struct Execution {
  Isa isa = best_isa();
  int threads = 1;
  // Runs task(context, i) for every i in [0, tasks), on up to `threads` threads, and returns when all are done. Null:
  // one after another on the calling thread.
  void (*run)(int tasks, void (*task)(void* context, int i), void* context) = nullptr;
};

}  // namespace estrain::kernels
