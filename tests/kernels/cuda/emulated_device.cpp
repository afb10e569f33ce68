// The device, emulated by the CPU.

#include <cstdlib>
#include <cstring>

#include "kernels/cuda/kernels.h"
#include "tests/kernels/cuda/device_under_test.h"

namespace estrain::kernels::test {
namespace {

// Filled with a pattern that reveals reads before writes.
void* allocate(const DeviceQueue&, size_t bytes) {
  void* memory = std::malloc(bytes);
  std::memset(memory, 0x7F, bytes);
  return memory;
}
void release(const DeviceQueue&, void* memory) { std::free(memory); }

DeviceQueue queue = {.kernels = &cuda::device_kernels,
                     .updates = &cuda::device_updates,
                     .stream = nullptr,
                     .allocate = allocate,
                     .release = release};

}  // namespace

// Alternates small and large devices, which partition their work differently.
Execution on_device(int layout) {
  queue.layout = layout;
  queue.processors = queue.processors == 1 ? 3 : queue.processors == 3 ? 100 : 1;
  return {.device = &queue};
}
Execution on_cpu() { return {}; }
void* allocate_on_device(size_t bytes) { return allocate(queue, bytes); }
void release_on_device(void* memory) { std::free(memory); }
void copy_to_device(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void copy_from_device(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace estrain::kernels::test
