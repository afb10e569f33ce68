#pragma once
// A copy from a GPU to the host beside what the GPU computes.

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>

namespace estrain::cuda {

using Copied = std::shared_ptr<c10::cuda::CUDAEvent>;

// Copies `bytes` bytes from `device` to `host` on the stream `by`, once all that was queued on the current stream is
// computed. Returns the event that comes behind the copy; a thread that waits for it sleeps. Both memories must last
// until then. Copies to memory that is not page-locked are made before this returns.
Copied copy_to_host(void* host, const void* device, size_t bytes, c10::cuda::CUDAStream by);

}  // namespace estrain::cuda
