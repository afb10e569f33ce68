#include <ATen/ops/linear_native.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <vector>

#include "tests/core/engine/operators/products.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

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
      check_same_product([&](const Inputs& in) { return at::linear(lay(in[0]), in[1], in[2]); },
                         [&](const Inputs& in) { return at::native::linear(lay(in[0]), in[1], in[2]); }, values);
      check_same_product([&](const Inputs& in) { return at::linear(lay(in[0]), in[1]); },
                         [&](const Inputs& in) { return at::native::linear(lay(in[0]), in[1]); },
                         {values[0], values[1]});
      const Inputs turned = {x, values[1].t().contiguous()};
      check_same_product([&](const Inputs& in) { return at::linear(lay(in[0]), in[1].t()); },
                         [&](const Inputs& in) { return at::native::linear(lay(in[0]), in[1].t()); }, turned);
    }
  }
  const PortableOperators portable(cpu);
  const Tensor x = torch::randn({3, 5, 20}).requires_grad_(true);
  const Tensor y = at::linear(x, torch::randn({4, 20}));
  CHECK(y.grad_fn()->next_edge(0).function->name() == "torch::autograd::AccumulateGrad");
}

}  // namespace
}  // namespace estrain::operators
