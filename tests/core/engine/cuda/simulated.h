#pragma once
// The simulated GPU of the process (tests/simulated_gpu). The GPU computes late: code that does not wait for the GPU
// reads the old contents.

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

namespace estrain::cuda {

inline c10::Device gpu() {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  REQUIRE(c10::cuda::device_count() > 0);
  return {c10::kCUDA, 0};
}

inline at::Tensor on_gpu(const at::Tensor& host) { return host.to(gpu()); }
inline at::Tensor full_on_gpu(int64_t size, double value) {
  return at::full({size}, value, at::TensorOptions(at::kFloat).device(gpu()));
}
inline at::Tensor page_locked(int64_t size, double value) {
  gpu();
  at::Tensor memory = at::empty({size}, at::TensorOptions(at::kFloat).pinned_memory(true));
  return memory.fill_(value);
}

// Returns a stream other than the current stream.
inline c10::cuda::CUDAStream copying_stream() {
  gpu();
  return c10::cuda::getStreamFromPool(false, 0);
}

}  // namespace estrain::cuda
