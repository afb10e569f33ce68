#pragma once
// Convolution of [n, channels, height, width] with a square kernel, zero padding, and equal strides.

#include <ATen/ops/conv2d.h>
#include <torch/nn/module.h>

#include "core/engine/model/layers/initializer.h"

namespace estrain::model {

struct Conv2dOptions {
  int64_t inputs;
  int64_t outputs;
  int64_t kernel;
  int64_t stride = 1;
  int64_t padding = 0;
  bool with_bias = true;
};

class Conv2d : public torch::nn::Module {
 public:
  Conv2d(Initializer& init, const Conv2dOptions& options) : stride_(options.stride), padding_(options.padding) {
    weight =
        register_parameter("weight", init.allocate({options.outputs, options.inputs, options.kernel, options.kernel}));
    if (options.with_bias) bias = register_parameter("bias", init.allocate({options.outputs}));
    init.torch_default(weight, bias);
  }

  torch::Tensor forward(const torch::Tensor& x) const {
    return at::conv2d(x, weight, bias, {stride_, stride_}, {padding_, padding_});
  }

  torch::Tensor weight;  // [outputs, inputs, kernel, kernel]
  torch::Tensor bias;    // [outputs], or undefined

 private:
  int64_t stride_;
  int64_t padding_;
};

}  // namespace estrain::model
