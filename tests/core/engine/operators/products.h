#pragma once
// Linear layers and products of matrices, as one operator each, beside LibTorch's composition of the same kernels.

#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {

using Inputs = std::vector<torch::Tensor>;
using Product = std::function<torch::Tensor(const Inputs&)>;

inline bool same_product_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// The result and the gradients of the inputs, of a loss that weighs every element differently.
inline std::vector<torch::Tensor> results_of(const Product& product, const Inputs& values) {
  Inputs inputs;
  for (const torch::Tensor& value : values) inputs.push_back(value.detach().clone().requires_grad_(true));
  const torch::Tensor y = product(inputs);
  const torch::Tensor weights = (torch::arange(y.numel(), torch::kDouble) / static_cast<double>(y.numel()) - 0.5)
                                    .to(y.scalar_type())
                                    .view(y.sizes());
  (y * weights).sum().backward();
  std::vector<torch::Tensor> all = {y.detach()};
  for (const torch::Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

inline void check_same_product(const Product& product, const Product& composed, const Inputs& values) {
  const PortableOperators portable(cpu);
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const std::vector<torch::Tensor> got = results_of(product, values), expected = results_of(composed, values);
    at::set_num_threads(before);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(same_product_bits(got[i], expected[i]));
    }
    CHECK(got[0].is_contiguous());
  }
}

}  // namespace estrain::operators
