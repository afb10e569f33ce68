#include "core/engine/model/zoo/lenet.h"

#include <ATen/ops/max_pool2d.h>

namespace estrain::model {
namespace {

// Returns the number of pixels after both convolutions (no padding) and poolings.
int64_t pixels_left(int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; }

}  // namespace

LeNet::LeNet(Initializer& init, const ImageShape& image, int64_t classes, double label_smoothing)
    : Classifier(label_smoothing) {
  const int64_t features = 16 * pixels_left(image.height) * pixels_left(image.width);
  conv1_ = register_module(
      "conv1", std::make_shared<Conv2d>(init, Conv2dOptions{.inputs = image.channels, .outputs = 6, .kernel = 5}));
  conv2_ =
      register_module("conv2", std::make_shared<Conv2d>(init, Conv2dOptions{.inputs = 6, .outputs = 16, .kernel = 5}));
  fc1_ = register_module("fc1", std::make_shared<Linear>(init, features, 120));
  fc2_ = register_module("fc2", std::make_shared<Linear>(init, 120, 84));
  fc3_ = register_module("fc3", std::make_shared<Linear>(init, 84, classes));
  add_blocks();
}

// ReLU after the pooling gives the same values as before the pooling, with a quarter of the elements.
void LeNet::add_blocks() {
  add_block("conv1", [this](const torch::Tensor& x) { return at::max_pool2d(conv1_->forward(x), {2, 2}).relu_(); });
  add_block("conv2", [this](const torch::Tensor& x) { return at::max_pool2d(conv2_->forward(x), {2, 2}).relu_(); });
  add_block("fc1", [this](const torch::Tensor& x) { return fc1_->forward(x.flatten(1)).relu_(); });
  add_block("fc2", [this](const torch::Tensor& x) { return fc2_->forward(x).relu_(); });
  add_block("fc3", [this](const torch::Tensor& x) { return fc3_->forward(x); });
}

}  // namespace estrain::model
