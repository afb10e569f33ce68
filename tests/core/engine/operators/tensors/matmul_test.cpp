#include <ATen/ops/matmul_native.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <utility>
#include <vector>

#include "tests/core/engine/operators/products.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

TEST_CASE("products of many matrices have the bits of one batch of products, whatever the strides") {
  torch::manual_seed(8);
  const auto check = [](const Product& left, const Product& right, const Inputs& values) {
    check_same_product([&](const Inputs& in) { return at::matmul(left(in), right(in)); },
                       [&](const Inputs& in) { return at::native::matmul(left(in), right(in)); }, values);
  };
  const auto part = [](int64_t which) {  // windows x heads x tokens x channels, as attention takes them
    return [which](const Inputs& in) {
      return in[0].view({6, 16, 3, 2, 24}).permute({2, 0, 3, 1, 4}).select(0, which);
    };
  };
  const auto turned = [](const Product& product) {
    return [product](const Inputs& in) { return product(in).transpose(-1, -2); };
  };
  const Inputs qkv = {torch::randn({6, 16, 144})};
  check(part(0), turned(part(1)), qkv);
  check(turned(part(2)), part(1), qkv);
  const auto first = [](const Inputs& in) { return in[0]; };
  const auto second = [](const Inputs& in) { return in[1]; };
  check(first, second, {torch::randn({5, 7, 9}), torch::randn({5, 9, 4})});
  check(first, second, {torch::randn({1, 1, 7, 9}), torch::randn({1, 1, 9, 1})});
  check(first, second, {torch::randn({2, 3, 4, 5, 300}), torch::randn({2, 3, 4, 300, 6})});
  check(
      [](const Inputs& in) {
        return in[0].expand({3, 4, 7, 9});
      },
      second, {torch::randn({3, 1, 7, 9}), torch::randn({3, 4, 9, 5})});
  check(
      [](const Inputs& in) {
        return in[0].permute({2, 3, 0, 1});
      },
      second,  // batches are nearest in memory
      {torch::randn({7, 9, 3, 4}), torch::randn({3, 4, 9, 5})});
  check(first, second, {torch::randn({1, 4, 7, 9}), torch::randn({3, 4, 9, 5})});  // broadcast: composed
  check(first, second, {torch::randn({2, 4, 7, 9}), torch::randn({9, 5})});
}

TEST_CASE("linear layers and products have gradients of gradients") {
  torch::manual_seed(9);
  const std::vector<std::pair<Product, Inputs>> cases = {
      {[](const Inputs& in) { return at::linear(in[0], in[1], in[2]); },
       {torch::randn({3, 4, 5}), torch::randn({6, 5}), torch::randn({6})}},
      {[](const Inputs& in) { return at::matmul(in[0], in[1].transpose(-1, -2)); },
       {torch::randn({2, 3, 4, 5}), torch::randn({2, 3, 6, 5})}}};
  for (const auto& [product, values] : cases) {
    const auto penalised = [&product](const Inputs& in) {
      const Tensor y = product(in).square().sum();
      return torch::autograd::grad({y}, in, {}, true, true)[0].square().sum(-1) + y;
    };
    Inputs doubles;
    for (const Tensor& value : values) doubles.push_back(value.to(torch::kDouble));
    const std::vector<Tensor> expected = results_of(penalised, doubles);
    const PortableOperators portable(cpu);
    const std::vector<Tensor> got = results_of(penalised, values);
    for (size_t i = 0; i < got.size(); ++i) CHECK(torch::allclose(got[i].to(torch::kDouble), expected[i], 1e-4, 1e-3));
  }
}

}  // namespace
}  // namespace estrain::operators
