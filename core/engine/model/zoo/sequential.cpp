#include "core/engine/model/zoo/sequential.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>

namespace estrain::model {
namespace {

// Returns the number of pixels after both convolutions (no padding) and poolings.
int64_t pixels_left(int64_t pixels) { return ((pixels - 4) / 2 - 4) / 2; }

constexpr int64_t kPool = 0;  // marks a 2x2 max pooling among the channel counts

const std::vector<int64_t>& plan(VggDepth depth) {
  static const std::vector<int64_t> vgg11 = {64, kPool, 128, kPool, 256, 256, kPool, 512, 512, kPool, 512, 512, kPool};
  static const std::vector<int64_t> vgg19 = {64,  64,  kPool, 128, 128,   kPool, 256, 256, 256, 256,  kPool,
                                             512, 512, 512,   512, kPool, 512,   512, 512, 512, kPool};
  return depth == VggDepth::vgg11 ? vgg11 : vgg19;
}

// torchvision's second pass over all layers, in the order of the names.
void reinitialize(Initializer& init, const torch::nn::Module& model) {
  for (const auto& layer : model.modules(/*include_self=*/false)) {
    if (const auto* convolution = layer->as<Conv2d>()) {
      init.kaiming_normal_fan_out(convolution->weight);
      init.fill(convolution->bias, 0);
    } else if (const auto* linear = layer->as<Linear>()) {
      init.normal(linear->weight, 0.01);
      init.fill(linear->bias, 0);
    }
  }
}

}  // namespace

Mlp::Mlp(Initializer& init, const MlpOptions& options, double label_smoothing)
    : Classifier(label_smoothing), dropout_(options.dropout) {
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  std::vector<int64_t> widths = options.hidden;
  widths.push_back(options.classes);
  int64_t inputs = options.features;
  for (size_t i = 0; i < widths.size(); ++i) {
    auto linear = layers->register_module(std::to_string(i), std::make_shared<Linear>(init, inputs, widths[i]));
    add_layer(linear, i, i + 1 == widths.size());
    inputs = widths[i];
  }
}

void Mlp::add_layer(const std::shared_ptr<Linear>& linear, size_t index, bool is_last) {
  add_block("layers." + std::to_string(index), [this, linear, index, is_last](const torch::Tensor& x) {
    const torch::Tensor y = linear->forward(index == 0 ? x.flatten(1) : x);
    return is_last ? y : at::dropout(y.relu_(), dropout_, is_training());
  });
}

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

Vgg::Vgg(Initializer& init, const VggOptions& options, double label_smoothing)
    : Classifier(label_smoothing), dropout_(options.dropout) {
  add_features(init, options);
  add_classifier(init, options);
  reinitialize(init, *this);
}

// Names are indices in torchvision's nn.Sequential, where a ReLU counts, too.
void Vgg::add_features(Initializer& init, const VggOptions& options) {
  const auto features = register_module("features", std::make_shared<torch::nn::Module>("features"));
  int64_t inputs = options.channels;
  int64_t place = 0;
  for (const int64_t outputs : plan(options.depth)) {
    const std::string name = std::to_string(place);
    if (outputs == kPool) {
      add_block("features." + name, [](const torch::Tensor& x) { return at::max_pool2d(x, {2, 2}, {2, 2}); });
      place += 1;
      continue;
    }
    const Conv2dOptions conv_options{.inputs = inputs, .outputs = outputs, .kernel = 3, .padding = 1};
    const auto conv = features->register_module(name, std::make_shared<Conv2d>(init, conv_options));
    add_block("features." + name, [conv](const torch::Tensor& x) { return conv->forward(x).relu_(); });
    inputs = outputs;
    place += 2;
  }
}

void Vgg::add_classifier(Initializer& init, const VggOptions& options) {
  const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>("classifier"));
  const auto first = classifier->register_module("0", std::make_shared<Linear>(init, 512 * 7 * 7, 4096));
  const auto second = classifier->register_module("3", std::make_shared<Linear>(init, 4096, 4096));
  const auto last = classifier->register_module("6", std::make_shared<Linear>(init, 4096, options.classes));
  add_block("classifier.0", [this, first](const torch::Tensor& x) {
    const torch::Tensor pooled = at::adaptive_avg_pool2d(x, {7, 7}).flatten(1);
    return at::dropout(first->forward(pooled).relu_(), dropout_, is_training());
  });
  add_block("classifier.3", [this, second](const torch::Tensor& x) {
    return at::dropout(second->forward(x).relu_(), dropout_, is_training());
  });
  add_block("classifier.6", [last](const torch::Tensor& x) { return last->forward(x); });
}

}  // namespace estrain::model
