#pragma once
// The layers of the networks in zoo: registered tensors with the names and initial values of Python's torch.nn, and
// forward().

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <torch/nn/module.h>

#include "core/base/error.h"
#include "core/engine/model/layers/initializer.h"

namespace estrain::model {

// A Linear is y = x W^T + b. Uses at::linear, as in Python: torch::nn::Linear takes a second path for inputs with three
// or more dimensions, with different gradients.
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

struct Conv2dOptions {
  int64_t inputs;
  int64_t outputs;
  int64_t kernel;
  int64_t stride = 1;
  int64_t padding = 0;
  bool with_bias = true;
};

// A Conv2d is a convolution of [n, channels, height, width] with a square kernel, zero padding, and equal strides.
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

// A BatchNorm2d is batch normalisation over [n, channels, height, width] with PyTorch's defaults: eps 1e-5, momentum
// 0.1, running statistics updated in place by every training forward pass.
class BatchNorm2d : public torch::nn::Module {
 public:
  BatchNorm2d(Initializer& init, int64_t channels) {
    weight = register_parameter("weight", init.allocate({channels}));
    bias = register_parameter("bias", init.allocate({channels}));
    running_mean = register_buffer("running_mean", init.allocate({channels}));
    running_var = register_buffer("running_var", init.allocate({channels}));
    num_batches_tracked = register_buffer("num_batches_tracked", init.allocate({}, torch::kLong));
    init.fill(weight, 1);
    init.fill(bias, 0);
    init.fill(running_mean, 0);
    init.fill(running_var, 1);
    init.fill(num_batches_tracked, 0);
  }

  // Throws Fault::spec in training if a channel has only one value: the channel's variance would be 0/0.
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) {
      if (x.numel() == x.size(1)) refuse_single_value();
      num_batches_tracked.add_(1);
    }
    return at::batch_norm(x, weight, bias, running_mean, running_var, is_training(), 0.1, 1e-5, /*cudnn_enabled=*/true);
  }

  torch::Tensor weight, bias;
  torch::Tensor running_mean, running_var;
  torch::Tensor num_batches_tracked;  // int64, a scalar

 private:
  [[noreturn]] static void refuse_single_value() {
    throw Error(Fault::spec, "batch normalisation cannot train on one image of 1x1 pixels: a channel has no variance")
        .advise(
            "set data.batch to 2 or more, data.drop_last = true if only an epoch's last batch is that short, or use "
            "larger images");
  }
};

// A LayerNorm normalises over the last dimension, eps 1e-5.
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

// An Embedding looks up rows of a table by int64 index.
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
