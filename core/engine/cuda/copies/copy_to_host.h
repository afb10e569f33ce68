#pragma once
// A copy from a GPU to the host, in parallel with the GPU's computations.

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>

namespace estrain::cuda {

using Copied = std::shared_ptr<c10::cuda::CUDAEvent>;

// Copies `bytes` bytes from `device` to `host` on the stream `by`, after all work queued on the current stream. Returns
// the event after the copy; a thread waiting for the event sleeps. Both memories must stay valid until the event. A
// copy to memory that is not page-locked is complete when this function returns.
Copied copy_to_host(void* host, const void* device, size_t bytes, c10::cuda::CUDAStream by);

}  // namespace estrain::cuda
