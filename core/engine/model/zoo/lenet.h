#pragma once
// LeNet-5 in the modern form: two 5x5 convolutions, each with 2x2 max pooling and ReLU, and three linear layers.
// PyTorch's default initialisation. Equivalent: examples/lenet.py.

#include <memory>

#include "core/engine/model/data_shape.h"
#include "core/engine/model/layers/layers.h"
#include "core/engine/model/zoo/classifier.h"

namespace estrain::model {

class LeNet : public Classifier {
 public:
  static constexpr int64_t kSmallestImage = 16;  // pixels, height and width: both poolings keep at least one

  LeNet(Initializer& init, const ImageShape& image, int64_t classes, double label_smoothing);

 private:
  void add_blocks();

  std::shared_ptr<Conv2d> conv1_, conv2_;
  std::shared_ptr<Linear> fc1_, fc2_, fc3_;
};

}  // namespace estrain::model
