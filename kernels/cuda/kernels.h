#pragma once
// The portable kernels on CUDA devices: same order of operations, same bits as kernels/portable on the CPU, whatever
// the launch shape. <family>.cu says how its work is laid out; the orders are those of kernels/portable/<family>.h, the
// formulas those of kernels/portable/arithmetic, compiled for both.
//
// No float is added by an atomic operation and no library computes: a sum belongs to one thread, or to the 32 lanes of
// a warp, or is put together from blocks in their order. Work is put into the queue's stream; nothing waits for it, and
// nothing is copied between host and device, so it can be captured in a CUDA graph. A kernel that cannot be launched
// throws std::runtime_error, naming it.
//
// Proven on the CPU alone so far: the tests run these kernels' code there, thread by thread.

#include "kernels/device_updates.h"
#include "kernels/portable/device_kernels.h"

namespace estrain::kernels::cuda {

// What DeviceQueue::kernels and DeviceQueue::updates are for a CUDA stream.
extern const portable::DeviceKernels device_kernels;
extern const DeviceUpdates device_updates;

}  // namespace estrain::kernels::cuda
