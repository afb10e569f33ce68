#pragma once
// torchvision's VGG-11 and VGG-19 without batch normalisation: architecture, parameter names and initialisation. The
// first convolution takes the data's channels.

#include <memory>

#include "core/engine/model/layers/layers.h"
#include "core/engine/model/zoo/classifier.h"

namespace estrain::model {

enum class VggDepth { vgg11 = 11, vgg19 = 19 };

struct VggOptions {
  VggDepth depth;
  int64_t channels;  // of the images
  int64_t classes;
  double dropout = 0.5;
};

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
