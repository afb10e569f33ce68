#pragma once
// The device compared with the CPU by the cases of this folder: emulated (emulated_device.cpp), or a GPU
// (gpu_device.cpp).

#include <cstddef>

#include "kernels/execution.h"

namespace estrain::kernels::test {

// layout: DeviceQueue::layout, 0 to kLayouts - 1.
constexpr int kLayouts = 13;
Execution on_device(int layout = 0);
Execution on_cpu();

// The device's memory.
void* allocate_on_device(size_t bytes);
void release_on_device(void* memory);
void copy_to_device(void* to, const void* from, size_t bytes);
// Waits for all queued work.
void copy_from_device(void* to, const void* from, size_t bytes);

}  // namespace estrain::kernels::test
