#pragma once
// A kind of device for LibTorch whose memory is the host's, so that what is written for GPUs runs where there is none.
//
// Its tensors are of a device type that LibTorch has no kernels for (HPU), kept apart from the CPU's: an operator that
// is given a CPU tensor beside one of these, or reads the memory of one as the CPU's, fails as it would on a GPU. An
// operator without a kernel for the device computes on copies, as the CPU does; what the portable kernels replace runs
// as CUDA's source (tests/kernels/cuda/emulation).

#include <c10/core/Device.h>

#include <cstddef>

#include "core/device/library_kernels.h"
#include "kernels/device_queue.h"

namespace estrain::testing {

// Makes it known to LibTorch. Call once, before the first operator.
void register_backend();

inline c10::Device backend_device() { return {c10::kHPU, 0}; }

// LibTorch's kernels for the CPU, on tensors of the backend.
extern const device::LibraryKernels backend_library_kernels;

// Whether the bytes lie in one tensor's memory, which has not been released.
bool is_in_use(const void* memory, size_t bytes);

// Whether anything has been computed on it by this process: an operator of LibTorch's or a portable kernel.
bool has_computed();

// For the emulated CUDA kernels.
const kernels::DeviceQueue* backend_queue();

}  // namespace estrain::testing
