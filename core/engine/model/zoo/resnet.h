#pragma once
// torchvision's ResNet-18, -34 and -50: architecture, parameter names and initialisation. The first convolution takes
// the data's channels. Images may have any size, but training on one sample with last layers of 1x1 fails in batch
// normalisation.

#include <memory>

#include "core/engine/model/layers/layers.h"
#include "core/engine/model/zoo/classifier.h"

namespace estrain::model {

enum class ResNetDepth { resnet18 = 18, resnet34 = 34, resnet50 = 50 };

struct ResNetOptions {
  ResNetDepth depth;
  int64_t channels;  // of the images
  int64_t classes;
};

class ResNet : public Classifier {
 public:
  ResNet(Initializer& init, const ResNetOptions& options, double label_smoothing);

 private:
  int64_t add_stages(Initializer& init, ResNetDepth depth);

  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace estrain::model
