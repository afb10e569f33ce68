#pragma once
// Rows of a table, looked up by int64 index.

#include <ATen/ops/embedding.h>
#include <torch/nn/module.h>

#include "core/engine/model/layers/initializer.h"

namespace estrain::model {

class Embedding : public torch::nn::Module {
 public:
  Embedding(Initializer& init, int64_t rows, int64_t width) {
    weight = register_parameter("weight", init.allocate({rows, width}));
    init.normal(weight, 1);
  }

  torch::Tensor forward(const torch::Tensor& indices) const { return at::embedding(weight, indices); }

  torch::Tensor weight;  // [rows, width]
};

}  // namespace estrain::model
