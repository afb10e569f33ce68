// Linear layers and products of matrices, as one operator each, beside LibTorch's composition of the same kernels.

#include <ATen/Parallel.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <vector>

#include "core/device/cpu_device.h"
#include "core/operators/portable.h"

namespace estrain::operators {
namespace {

using torch::Tensor;
using Inputs = std::vector<Tensor>;
using Product = std::function<Tensor(const Inputs&)>;

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// The result and the gradients of the inputs, of a loss that weighs every element differently.
std::vector<Tensor> results(const Product& product, const Inputs& values) {
  Inputs inputs;
  for (const Tensor& value : values) inputs.push_back(value.detach().clone().requires_grad_(true));
  const Tensor y = product(inputs);
  const Tensor weights = (torch::arange(y.numel(), torch::kDouble) / static_cast<double>(y.numel()) - 0.5)
                             .to(y.scalar_type())
                             .view(y.sizes());
  (y * weights).sum().backward();
  std::vector<Tensor> all = {y.detach()};
  for (const Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

void check_same(const Product& product, const Product& composed, const Inputs& values) {
  device::CpuDevice processor;
  const PortableOperators portable(processor);
  for (const int threads : {1, 3}) {
    CAPTURE(threads);
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const std::vector<Tensor> got = results(product, values), expected = results(composed, values);
    at::set_num_threads(before);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(got[i], expected[i]));
    }
    CHECK(got[0].is_contiguous());
  }
}

TEST_CASE("a linear layer has the bits of a product and a sum, in one node of the graph") {
  torch::manual_seed(7);
  const std::vector<std::function<Tensor(const Tensor&)>> layouts = {
      [](const Tensor& x) { return x; },
      [](const Tensor& x) { return x.transpose(0, 1); },
      [](const Tensor& x) { return x.narrow(-1, 1, x.size(-1) - 1); },
  };
  const std::vector<std::vector<int64_t>> shapes = {{70, 20}, {3, 5, 20}, {2, 3, 4, 20}, {1, 1, 300}, {600, 1, 9}};
  for (const auto& shape : shapes) {
    for (const auto& lay : layouts) {
      const Tensor x = torch::randn(shape);
      const int64_t inputs = lay(x).size(-1);
      CAPTURE(shape.size());
      CAPTURE(inputs);
      const Inputs values = {x, torch::randn({11, inputs}), torch::randn({11})};
      check_same([&](const Inputs& in) { return at::linear(lay(in[0]), in[1], in[2]); },
                 [&](const Inputs& in) { return at::native::linear(lay(in[0]), in[1], in[2]); }, values);
      check_same([&](const Inputs& in) { return at::linear(lay(in[0]), in[1]); },
                 [&](const Inputs& in) { return at::native::linear(lay(in[0]), in[1]); }, {values[0], values[1]});
      const Inputs turned = {x, values[1].t().contiguous()};
      check_same([&](const Inputs& in) { return at::linear(lay(in[0]), in[1].t()); },
                 [&](const Inputs& in) { return at::native::linear(lay(in[0]), in[1].t()); }, turned);
    }
  }
  device::CpuDevice processor;
  const PortableOperators portable(processor);
  const Tensor x = torch::randn({3, 5, 20}).requires_grad_(true);
  const Tensor y = at::linear(x, torch::randn({4, 20}));
  CHECK(y.grad_fn()->next_edge(0).function->name() == "torch::autograd::AccumulateGrad");
}

TEST_CASE("products of many matrices have the bits of one batch of products, whatever the strides") {
  torch::manual_seed(8);
  const auto check = [](const Product& left, const Product& right, const Inputs& values) {
    check_same([&](const Inputs& in) { return at::matmul(left(in), right(in)); },
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
    const std::vector<Tensor> expected = results(penalised, doubles);
    device::CpuDevice processor;
    const PortableOperators portable(processor);
    const std::vector<Tensor> got = results(penalised, values);
    for (size_t i = 0; i < got.size(); ++i) CHECK(torch::allclose(got[i].to(torch::kDouble), expected[i], 1e-4, 1e-3));
  }
}

}  // namespace
}  // namespace estrain::operators
