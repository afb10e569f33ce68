#pragma once
// The networks without shortcuts, in which each layer takes the output of the layer before: a multi-layer perceptron,
// LeNet-5 and VGG.

#include <memory>

#include "core/engine/model/data_shape.h"
#include "core/engine/model/layers/layers.h"
#include "core/engine/model/zoo/classifier.h"

namespace estrain::model {

struct MlpOptions {
  int64_t features;             // of one sample, flattened
  std::vector<int64_t> hidden;  // widths; empty: a linear classifier
  int64_t classes;
  double dropout = 0;
};

// An Mlp is a multi-layer perceptron: flatten; linear, ReLU and dropout for each hidden width; a final linear layer.
// PyTorch's default initialisation. Parameters: layers.<i>.weight, layers.<i>.bias. Equivalent: examples/mlp.py.
class Mlp : public Classifier {
 public:
  Mlp(Initializer& init, const MlpOptions& options, double label_smoothing);

 private:
  void add_layer(const std::shared_ptr<Linear>& linear, size_t index, bool is_last);

  double dropout_;
};

// A LeNet is LeNet-5 in the modern form: two 5x5 convolutions, each with 2x2 max pooling and ReLU, and three linear
// layers. PyTorch's default initialisation. Equivalent: examples/lenet.py.
class LeNet : public Classifier {
 public:
  static constexpr int64_t kSmallestImage = 16;  // pixels, height and width: both poolings keep at least one

  LeNet(Initializer& init, const ImageShape& image, int64_t classes, double label_smoothing);

 private:
  void add_blocks();

  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<Linear> fc1_, fc2_, fc3_;
};

enum class VggDepth { vgg11 = 11, vgg19 = 19 };

struct VggOptions {
  VggDepth depth;
  int64_t channels;  // of the images
  int64_t classes;
  double dropout = 0.5;
};

// A Vgg is torchvision's VGG-11 or VGG-19 without batch normalisation: architecture, parameter names and
// initialisation. The first convolution takes the data's channels.
class Vgg : public Classifier {
 public:
  static constexpr int64_t kSmallestImage = 32;  // pixels, height and width: five poolings halve 32 to 1

  Vgg(Initializer& init, const VggOptions& options, double label_smoothing);

 private:
  void add_features(Initializer& init, const VggOptions& options);
  void add_classifier(Initializer& init, const VggOptions& options);

  double dropout_;
};

}  // namespace estrain::model
