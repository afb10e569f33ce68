#include <ATen/ops/equal.h>

#include "core/engine/cuda/cuda_device.h"
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

}  // namespace
}  // namespace estrain::cuda
