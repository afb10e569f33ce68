#pragma once
// Batch normalisation over [n, channels, height, width] with PyTorch's defaults: eps 1e-5, momentum 0.1, running
// statistics updated in place by every training forward pass.

#include <ATen/ops/batch_norm.h>
#include <torch/nn/module.h>

#include "core/base/error.h"
#include "core/engine/model/layers/initializer.h"

namespace estrain::model {

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

}  // namespace estrain::model
