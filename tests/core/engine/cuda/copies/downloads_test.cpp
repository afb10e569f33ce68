#include <ATen/ops/equal.h>

#include <algorithm>

#include "core/engine/cuda/cuda_device.h"
#include "kernels/device_updates.h"
#include "tests/core/engine/cuda/simulated.h"

namespace estrain::cuda {
namespace {

TEST_CASE("what is computed after await_downloads() does not change what is downloaded") {
  CudaDevice device(0, {});
  for (int round = 0; round < 20; ++round) {
    const at::Tensor there = full_on_gpu(1000, 3), here = page_locked(1000, -1);
    device.download(there, static_cast<std::byte*>(here.mutable_data_ptr()), [] {});
    device.await_downloads();
    there.add_(10);
    c10::cuda::getCurrentCUDAStream().synchronize();
    device.finish();
    CHECK(at::equal(here, at::full({1000}, 3.0f)));
    CHECK(at::equal(there.cpu(), at::full({1000}, 13.0f)));
  }
}

// Adds `b` to `a` by a kernel.
void add(CudaDevice& device, float* a, const float* b, size_t n) {
  const kernels::DeviceQueue& queue = *device.queue();
  queue.updates->add(a, a, b, n, queue);
}

TEST_CASE("kernels write to mapped memory of the host, and a download has the values of its moment") {
  constexpr size_t n = 1000;
  CudaDevice device(0, {});
  const at::Tensor ones = full_on_gpu(n, 1), here = page_locked(n, -1);
  const at::Tensor mapped = device.mapped_memory(n * sizeof(float));
  auto* const values = reinterpret_cast<float*>(mapped.mutable_data_ptr());
  CHECK(mapped.is_cpu());
  for (int round = 0; round < 20; ++round) {
    std::fill_n(values, n, 3.0f);
    add(device, values, ones.const_data_ptr<float>(), n);
    device.download(mapped, static_cast<std::byte*>(here.mutable_data_ptr()), [] {});
    device.await_downloads();
    add(device, values, ones.const_data_ptr<float>(), n);
    c10::cuda::getCurrentCUDAStream().synchronize();
    device.finish();
    CHECK(at::equal(here, at::full({n}, 4.0f)));
    CHECK(values[0] == 5);
    CHECK(values[n - 1] == 5);
  }
  CHECK(device.mapped_memory(0).numel() == 0);
}

TEST_CASE("mapped memory is kept for the next stage") {
  CudaDevice device(0, {});
  const void* const place = device.mapped_memory(1000).const_data_ptr();
  CHECK(device.mapped_memory(900).const_data_ptr() == place);
  CHECK(device.mapped_memory(1000).const_data_ptr() == place);
  CHECK(device.mapped_memory(2000).numel() == 2000);
  const void* const large = device.mapped_memory(2000).const_data_ptr();
  CHECK(device.mapped_memory(1001).const_data_ptr() == large);
  device.mapped_memory(1000);
  CHECK(device.mapped_bytes() == 1000);
  const at::Tensor used = device.mapped_memory(1000);
  CHECK(device.mapped_memory(1000).const_data_ptr() != used.const_data_ptr());
}

}  // namespace
}  // namespace estrain::cuda
