#include "core/engine/model/zoo/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include <array>

namespace estrain::model {
namespace {

std::shared_ptr<Conv2d> conv(Initializer& init, int64_t kernel, int64_t inputs, int64_t outputs, int64_t stride = 1) {
  return std::make_shared<Conv2d>(init, Conv2dOptions{.inputs = inputs,
                                                      .outputs = outputs,
                                                      .kernel = kernel,
                                                      .stride = stride,
                                                      .padding = kernel / 2,
                                                      .with_bias = false});
}

// The 1x1 convolution that converts a block's input to the shape of the block's output.
class Downsample : public torch::nn::Module {
 public:
  Downsample(Initializer& init, int64_t inputs, int64_t outputs, int64_t stride) {
    conv_ = register_module("0", conv(init, 1, inputs, outputs, stride));
    norm_ = register_module("1", std::make_shared<BatchNorm2d>(init, outputs));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm_->forward(conv_->forward(x)); }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;
};

struct ResidualOptions {
  int64_t inputs;
  int64_t planes;  // channels inside the block
  int64_t stride;
};

// Adds a path of convolutions to the block's input. Construction follows torchvision's order of draws (downsample
// first), registration torchvision's order of names (downsample last).
class ResidualBlock : public torch::nn::Module {
 public:
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = path(x);
    y.add_(downsample_ ? downsample_->forward(x) : x);
    return y.relu_();
  }

 protected:
  ResidualBlock(Initializer& init, const ResidualOptions& options, int64_t outputs) {
    if (options.stride != 1 || options.inputs != outputs) {
      downsample_ = std::make_shared<Downsample>(init, options.inputs, outputs, options.stride);
    }
  }
  void register_downsample() {
    if (downsample_) register_module("downsample", downsample_);
  }

 private:
  virtual torch::Tensor path(const torch::Tensor& x) = 0;

  std::shared_ptr<Downsample> downsample_;
};

class BasicBlock : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 1;  // output channels per plane

  BasicBlock(Initializer& init, const ResidualOptions& options) : ResidualBlock(init, options, options.planes) {
    conv1_ = register_module("conv1", conv(init, 3, options.inputs, options.planes, options.stride));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(init, options.planes));
    conv2_ = register_module("conv2", conv(init, 3, options.planes, options.planes));
    bn2_ = register_module("bn2", std::make_shared<BatchNorm2d>(init, options.planes));
    register_downsample();
  }

 private:
  torch::Tensor path(const torch::Tensor& x) override {
    const torch::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
    return bn2_->forward(conv2_->forward(y));
  }

  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<BatchNorm2d> bn1_, bn2_;
};

class Bottleneck : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 4;

  Bottleneck(Initializer& init, const ResidualOptions& options)
      : ResidualBlock(init, options, options.planes * kExpansion) {
    const int64_t planes = options.planes;
    conv1_ = register_module("conv1", conv(init, 1, options.inputs, planes));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(init, planes));
    conv2_ = register_module("conv2", conv(init, 3, planes, planes, options.stride));
    bn2_ = register_module("bn2", std::make_shared<BatchNorm2d>(init, planes));
    conv3_ = register_module("conv3", conv(init, 1, planes, planes * kExpansion));
    bn3_ = register_module("bn3", std::make_shared<BatchNorm2d>(init, planes * kExpansion));
    register_downsample();
  }

 private:
  torch::Tensor path(const torch::Tensor& x) override {
    torch::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
    y = bn2_->forward(conv2_->forward(y)).relu_();
    return bn3_->forward(conv3_->forward(y));
  }

  std::shared_ptr<Conv2d> conv1_, conv2_, conv3_;
  std::shared_ptr<BatchNorm2d> bn1_, bn2_, bn3_;
};

bool has_bottlenecks(ResNetDepth depth) { return depth == ResNetDepth::resnet50; }

std::shared_ptr<ResidualBlock> residual_block(Initializer& init, ResNetDepth depth, const ResidualOptions& options) {
  if (has_bottlenecks(depth)) return std::make_shared<Bottleneck>(init, options);
  return std::make_shared<BasicBlock>(init, options);
}

std::array<int, 4> blocks_per_stage(ResNetDepth depth) {
  if (depth == ResNetDepth::resnet18) return {2, 2, 2, 2};
  return {3, 4, 6, 3};
}

// torchvision's second pass over all layers; batch norms keep the initial weights 1 and biases 0.
void reinitialize_convolutions(Initializer& init, const torch::nn::Module& model) {
  for (const auto& layer : model.modules(/*include_self=*/false)) {
    if (const auto* convolution = layer->as<Conv2d>()) init.kaiming_normal_fan_out(convolution->weight);
  }
}

}  // namespace

ResNet::ResNet(Initializer& init, const ResNetOptions& options, double label_smoothing) : Classifier(label_smoothing) {
  conv1_ = register_module("conv1", conv(init, 7, options.channels, 64, 2));
  bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(init, 64));
  add_block("stem", [this](const torch::Tensor& x) {
    return at::max_pool2d(bn1_->forward(conv1_->forward(x)).relu_(), {3, 3}, {2, 2}, {1, 1});
  });
  const int64_t features = add_stages(init, options.depth);
  fc_ = register_module("fc", std::make_shared<Linear>(init, features, options.classes));
  add_block("head", [this](const torch::Tensor& x) {
    return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  });
  reinitialize_convolutions(init, *this);
}

// Returns the number of output channels of the last stage.
int64_t ResNet::add_stages(Initializer& init, ResNetDepth depth) {
  const int64_t expansion = has_bottlenecks(depth) ? Bottleneck::kExpansion : BasicBlock::kExpansion;
  const std::array<int, 4> num_blocks = blocks_per_stage(depth);
  int64_t inputs = 64;
  for (size_t stage = 0; stage < num_blocks.size(); ++stage) {
    const std::string name = "layer" + std::to_string(stage + 1);
    const auto layers = register_module(name, std::make_shared<torch::nn::Module>(name));
    const int64_t planes = int64_t{64} << stage;
    for (int i = 0; i < num_blocks[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const auto block = residual_block(init, depth, {.inputs = inputs, .planes = planes, .stride = stride});
      layers->register_module(std::to_string(i), block);
      add_block(name + "." + std::to_string(i), [block](const torch::Tensor& x) { return block->forward(x); });
      inputs = planes * expansion;
    }
  }
  return inputs;
}

}  // namespace estrain::model
