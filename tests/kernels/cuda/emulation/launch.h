#pragma once
// Launches an emulated kernel (grid.h).

#include <stdint.h>

#include <functional>

namespace estrain::kernels::cuda::emulation {

struct Size {
  int64_t blocks = 0;
  unsigned threads_x = 1, threads_y = 1;
};
// Runs body(context) in every thread of all blocks.
void run(Size grid, void (*body)(void*), void* context);

// Runs the work of a queue's stream, if the work must not run at once.
extern void (*launch_later)(void* stream, const char* kernel, std::function<void()> work);

template <typename Body>
void launch(void* stream, const char* kernel, Size grid, Body body) {
  auto work = [=]() mutable {
    run(
        grid, [](void* context) { (*static_cast<Body*>(context))(); }, &body);
  };
  if (launch_later == nullptr) return work();
  launch_later(stream, kernel, work);
}

}  // namespace estrain::kernels::cuda::emulation
