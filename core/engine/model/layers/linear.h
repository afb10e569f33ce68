#pragma once
// y = x W^T + b. Uses at::linear, as in Python: torch::nn::Linear takes a second path for inputs with three or more
// dimensions, with different gradients.

#include <ATen/ops/linear.h>
#include <torch/nn/module.h>

#include "core/engine/model/layers/initializer.h"

namespace estrain::model {

class Linear : public torch::nn::Module {
 public:
  enum class Bias { with, without };

  Linear(Initializer& init, int64_t inputs, int64_t outputs, Bias with_bias = Bias::with) {
    weight = register_parameter("weight", init.allocate({outputs, inputs}));
    if (with_bias == Bias::with) bias = register_parameter("bias", init.allocate({outputs}));
    init.torch_default(weight, bias);
  }

  // Without bias, with `tied` as the weight. Draws and discards the values of a weight of its own, like Python's `head
  // = nn.Linear(...); head.weight = embedding.weight`.
  Linear(Initializer& init, const torch::Tensor& tied) {
    init.torch_default(init.allocate(tied.sizes()), {});
    weight = register_parameter("weight", tied);
  }

  torch::Tensor forward(const torch::Tensor& x) const { return at::linear(x, weight, bias); }

  torch::Tensor weight;  // [outputs, inputs]
  torch::Tensor bias;    // [outputs], or undefined
};

}  // namespace estrain::model
