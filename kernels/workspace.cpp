#include "kernels/workspace.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace estrain::kernels {
namespace {

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
struct Slot {
  std::unique_ptr<float, Free> memory;
  size_t floats = 0;
};
thread_local Slot slots[num_workspace_slots];

constexpr size_t kGrain = 1024;  // floats: a page

}  // namespace

float* workspace(int index, size_t floats) {
  Slot& slot = slots[index];
  if (slot.floats < floats) {
    const size_t rounded = (floats + kGrain - 1) / kGrain * kGrain;
    slot.memory.reset();
    slot.floats = 0;
    slot.memory.reset(static_cast<float*>(std::aligned_alloc(64, rounded * sizeof(float))));
    if (!slot.memory) throw std::bad_alloc();
    slot.floats = rounded;
  }
  return slot.memory.get();
}

}  // namespace estrain::kernels
