#include "core/engine/operators/parallel.h"

#include <ATen/Parallel.h>

namespace estrain::operators {

void run_in_parallel(int tasks, void (*task)(void*, int), void* context) {
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(context, static_cast<int>(i));
  });
}

}  // namespace estrain::operators
