#include "core/engine/cuda/portable/portable_convolution.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "tests/core/engine/cuda/simulated.h"
#include "tests/core/engine/cuda/small_convolution.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;

TEST_CASE("a portable convolution has the CPU's bits, in each pass") {
  // The same shape as small_convolution().
  const kernels::portable::Convolution shape = {.batch = 2,
                                                .channels_in = 4,
                                                .height = 9,
                                                .width = 8,
                                                .channels_out = 6,
                                                .filter_height = 3,
                                                .filter_width = 2,
                                                .stride_height = 2,
                                                .stride_width = 1,
                                                .padding_height = 1,
                                                .padding_width = 0,
                                                .dilation_height = 1,
                                                .dilation_width = 2,
                                                .groups = 2};
  at::Tensor x = at::randn({2, 4, 9, 8}), w = at::randn({6, 2, 3, 2}), y = at::randn({2, 6, 5, 6});
  (void)cudaGetLastError();  // of an engine that another case tried
  for (const pinned::Pass pass : kPasses) {
    CAPTURE(static_cast<int>(pass));
    const at::Tensor there_x = on_gpu(x), there_w = on_gpu(w), there_y = on_gpu(y);
    PortableConvolution plan(small_convolution(pass));
    CHECK(plan.workspace() == 0);
    plan.run({there_x.data_ptr(), there_w.data_ptr(), there_y.data_ptr()}, nullptr,
             c10::cuda::getCurrentCUDAStream().stream());
    auto *xs = x.mutable_data_ptr<float>(), *ws = w.mutable_data_ptr<float>(), *ys = y.mutable_data_ptr<float>();
    if (pass == pinned::Pass::forward) kernels::portable::convolution_forward(shape, xs, ws, nullptr, ys, {});
    if (pass == pinned::Pass::data) kernels::portable::convolution_backward_data(shape, ys, ws, xs, {});
    if (pass == pinned::Pass::filter) kernels::portable::convolution_backward_filter(shape, xs, ys, ws, {});
    CHECK(at::equal(there_x.cpu(), x));
    CHECK(at::equal(there_w.cpu(), w));
    CHECK(at::equal(there_y.cpu(), y));
  }
}

}  // namespace
}  // namespace estrain::cuda
