#pragma once
// Divides the outputs of a kernel over threads, for code compiled per instruction set.

#include <stdint.h>

#include "kernels/execution.h"
#include ESTRAIN_VECTORS

namespace estrain::kernels::ESTRAIN_ISA {

// Calls body(i) for every i in [0, tasks), on several threads at once and in any order if `execution` has threads. All
// threads share one copy of `body`. Returns when all calls have ended.
template <typename Body>
static inline void for_tasks(const Execution& execution, int tasks, Body body) {
  if (execution.run == nullptr || execution.threads == 1 || tasks == 1) {
    for (int i = 0; i < tasks; ++i) body(i);
    return;
  }
  execution.run(
      tasks, [](void* context, int i) { (*static_cast<Body*>(context))(i); }, &body);
}

// Divides an array over threads in ranges of elements: calls body(begin, end) for ranges that cover [0, n). The length
// of a range is a multiple of `grain`, except for the last range. The number of ranges is at most n / least, and at
// least 1: with n = 0 the only range is empty. The bounds depend on the number of threads, so no sum may end at a
// bound.
template <typename Body>
static inline void for_ranges(const Execution& execution, int64_t n, int64_t grain, int64_t least, Body body) {
  int64_t tasks = execution.run == nullptr ? 1 : n / least;
  tasks = tasks < execution.threads ? tasks : execution.threads;
  if (tasks <= 1) {
    body(static_cast<int64_t>(0), n);
    return;
  }
  const int64_t share = ((n + tasks - 1) / tasks + grain - 1) / grain * grain;
  for_tasks(execution, static_cast<int>(tasks), [&](int i) {
    const int64_t begin = i * share < n ? i * share : n;
    const int64_t end = begin + share < n ? begin + share : n;
    if (begin < end) body(begin, end);
  });
}

}  // namespace estrain::kernels::ESTRAIN_ISA
