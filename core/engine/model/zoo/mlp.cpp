#include "core/engine/model/zoo/mlp.h"

#include <ATen/ops/dropout.h>

namespace estrain::model {

Mlp::Mlp(Initializer& init, const MlpOptions& options, double label_smoothing)
    : Classifier(label_smoothing), dropout_(options.dropout) {
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  std::vector<int64_t> widths = options.hidden;
  widths.push_back(options.classes);
  int64_t inputs = options.features;
  for (size_t i = 0; i < widths.size(); ++i) {
    auto linear = layers->register_module(std::to_string(i), std::make_shared<Linear>(init, inputs, widths[i]));
    add_layer(std::move(linear), i, i + 1 == widths.size());
    inputs = widths[i];
  }
}

void Mlp::add_layer(std::shared_ptr<Linear> linear, size_t index, bool is_last) {
  add_block("layers." + std::to_string(index), [this, linear, index, is_last](const torch::Tensor& x) {
    const torch::Tensor y = linear->forward(index == 0 ? x.flatten(1) : x);
    return is_last ? y : at::dropout(y.relu_(), dropout_, is_training());
  });
}

}  // namespace estrain::model
