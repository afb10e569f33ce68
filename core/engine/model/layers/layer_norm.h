#pragma once
// Normalisation over the last dimension, eps 1e-5.

#include <ATen/ops/layer_norm.h>
#include <torch/nn/module.h>

#include "core/engine/model/layers/initializer.h"

namespace estrain::model {

class LayerNorm : public torch::nn::Module {
 public:
  LayerNorm(Initializer& init, int64_t width) {
    weight = register_parameter("weight", init.allocate({width}));
    bias = register_parameter("bias", init.allocate({width}));
    init.fill(weight, 1);
    init.fill(bias, 0);
  }

  torch::Tensor forward(const torch::Tensor& x) const {
    return at::layer_norm(x, weight.sizes(), weight, bias, 1e-5, /*cudnn_enable=*/true);
  }

  torch::Tensor weight, bias;  // [width]
};

}  // namespace estrain::model
