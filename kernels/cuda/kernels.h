#pragma once
// The portable kernels on CUDA devices: the same order of operations and the same bits as kernels/portable on the CPU,
// for any launch shape. <family>.cu documents the work distribution, kernels/portable/<family>.h the orders; the
// formulas in kernels/portable/arithmetic are compiled for both.
//
// No atomic operation adds floats, and no library computes. A sum belongs to one thread or to the 32 lanes of a warp,
// or is assembled from blocks in block order. Work goes into the queue's stream. The host does not wait for the work,
// and copies nothing between host and device, so a CUDA graph can capture the work. If launching a kernel fails,
// std::runtime_error names the kernel.
//
// The tests run the kernels' code on the CPU, thread by thread.

#include "kernels/device_updates.h"
#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::cuda {

// The values of DeviceQueue::kernels and DeviceQueue::updates for a CUDA stream.
extern const portable::DeviceKernels device_kernels;
extern const DeviceUpdates device_updates;

}  // namespace estrain::kernels::cuda
