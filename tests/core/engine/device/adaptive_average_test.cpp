#include "core/engine/device/adaptive_average.h"

#include <ATen/ops/_adaptive_avg_pool2d_backward.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <doctest/doctest.h>

#include <array>

namespace estrain::device {
namespace {

TEST_CASE("the gradient of adaptive average pooling is LibTorch's") {
  // input rows and columns, output rows and columns
  const std::array<int64_t, 4> shapes[] = {{1, 1, 7, 7}, {7, 7, 7, 7}, {14, 14, 7, 7}, {10, 9, 7, 7}, {3, 5, 7, 7},
                                           {5, 1, 2, 7}, {1, 6, 3, 4}, {8, 8, 1, 1},   {2, 7, 7, 2},  {11, 13, 5, 6}};
  for (const auto& [h, w, rows, columns] : shapes) {
    CAPTURE(h);
    CAPTURE(w);
    const at::Tensor input = at::randn({2, 3, h, w}), gradient = at::randn({2, 3, rows, columns});
    const at::Tensor expected = at::_adaptive_avg_pool2d_backward(gradient, input);
    const at::Tensor found = adaptive_average_backward(gradient, input);
    CHECK(found.sizes() == expected.sizes());
    CHECK(found.is_contiguous());
    CHECK(at::allclose(found, expected, 1e-5, 1e-6));
    if (h == rows && w == columns) CHECK(at::equal(found, gradient));
    const at::Tensor one = adaptive_average_backward(gradient[1], input[1]);  // without a batch
    CHECK(at::allclose(one, expected[1], 1e-5, 1e-6));
  }
}

TEST_CASE("the weights of windows are made once for each size, type and device") {
  const at::TensorOptions floats(at::kFloat), halves(at::kBFloat16);
  const at::Tensor weights = window_weights(7, 10, floats);
  CHECK(window_weights(7, 10, floats).is_same(weights));
  CHECK(!window_weights(10, 7, floats).is_same(weights));
  CHECK((window_weights(7, 10, halves).scalar_type() == at::kBFloat16));
  CHECK(at::allclose(weights.sum(1), at::ones({7}), 1e-6, 1e-7));
}

TEST_CASE("gradients that do not lie one after another in memory") {
  const at::Tensor input = at::randn({2, 3, 10, 9}), gradient = at::randn({2, 3, 7, 5}).transpose(2, 3);
  CHECK(at::allclose(adaptive_average_backward(gradient, input),
                     at::_adaptive_avg_pool2d_backward(gradient.contiguous(), input), 1e-5, 1e-6));
}

}  // namespace
}  // namespace estrain::device
