#pragma once
// Threads for the kernels under test: one per task.

#include <thread>
#include <vector>

#include "kernels/execution.h"

namespace estrain::kernels::test {

inline void run_on_threads(int tasks, void (*task)(void* context, int i), void* context) {
  std::vector<std::thread> threads;
  for (int i = 1; i < tasks; ++i) threads.emplace_back(task, context, i);
  if (tasks > 0) task(context, 0);
  for (std::thread& thread : threads) thread.join();
}

inline Execution execution_on(Isa isa, int threads) {
  return {.isa = isa, .threads = threads, .run = threads > 1 ? run_on_threads : nullptr};
}

}  // namespace estrain::kernels::test
