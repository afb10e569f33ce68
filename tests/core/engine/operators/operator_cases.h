#pragma once
// Operators with a derivative, each on inputs of several shapes: for tests of accuracy and of equal bits.

#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <vector>

namespace estrain::operators {

using torch::Tensor;
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Case {
  const char* name;
  std::vector<std::vector<int64_t>> inputs;  // shapes; values from a normal distribution
  Function run;
  bool positive = false;  // take absolute values, away from zero
};

inline std::vector<Tensor> draw(const Case& each) {
  torch::manual_seed(3);
  std::vector<Tensor> inputs;
  for (const auto& shape : each.inputs) {
    Tensor x = torch::randn(shape);
    inputs.push_back(each.positive ? x.abs() + 0.1 : x);
  }
  return inputs;
}

// The result and the gradients of all inputs, of a loss that weighs every element of the result differently.
inline std::vector<Tensor> results(const Case& each, const std::vector<Tensor>& values, torch::Dtype type) {
  std::vector<Tensor> inputs;
  for (const Tensor& value : values) inputs.push_back(value.to(type).detach().clone().requires_grad_(true));
  const Tensor y = each.run(inputs);
  const Tensor weights =
      (torch::arange(y.numel(), torch::kDouble) / static_cast<double>(y.numel()) - 0.5).to(type).view(y.sizes());
  (y * weights).sum().backward();
  std::vector<Tensor> all = {y.detach()};
  for (const Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

std::vector<Case> differentiable_cases();

}  // namespace estrain::operators
