#include "core/engine/cuda/pinned/pinned_plans.h"

#include <ATen/ops/tensor.h>

#include <limits>

#include "tests/core/engine/cuda/simulated.h"

namespace estrain::cuda {
namespace {

at::Tensor three(float last, at::ScalarType type) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return on_gpu(at::tensor({1.0f, nan, last}).to(type));
}

TEST_CASE("bits are compared, of NaNs too, and -0 is not +0") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    CAPTURE(type);
    CHECK(same_bits(three(0.0f, type), three(0.0f, type)));
    CHECK(!same_bits(three(0.0f, type), three(-0.0f, type)));
    CHECK(!same_bits(three(1.0f, type), three(1.0078125f, type)));
  }
}

TEST_CASE("filled memory has the sizes, strides and type of its model") {
  const at::Tensor like = on_gpu(at::full({4, 6}, 2.0f)).t();
  const at::Tensor filled = filled_like(like, 3);
  CHECK(filled.sizes() == like.sizes());
  CHECK(filled.strides() == like.strides());
  CHECK(filled.cpu().eq(3).all().item<bool>());
  CHECK(like.cpu().eq(2).all().item<bool>());
}

}  // namespace
}  // namespace estrain::cuda
