#pragma once
// Divides the outputs of a kernel over threads, for code compiled per instruction set.

#include "kernels/execution.h"
#include ESTRAIN_VECTORS

namespace estrain::kernels::ESTRAIN_ISA {

// Calls body(i) for every i in [0, tasks).
template <typename Body>
static inline void for_tasks(const Execution& execution, int tasks, Body body) {
  if (execution.run == nullptr || execution.threads == 1 || tasks == 1) {
    for (int i = 0; i < tasks; ++i) body(i);
    return;
  }
  execution.run(
      tasks, [](void* context, int i) { (*static_cast<Body*>(context))(i); }, &body);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
