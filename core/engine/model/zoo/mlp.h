#pragma once
// A multi-layer perceptron: flatten; linear, ReLU and dropout for each hidden width; a final linear layer. PyTorch's
// default initialisation. Parameters: layers.<i>.weight, layers.<i>.bias. Equivalent: examples/mlp.py.

#include <memory>

#include "core/engine/model/layers/layers.h"
#include "core/engine/model/zoo/classifier.h"

namespace estrain::model {

struct MlpOptions {
  int64_t features;             // of one sample, flattened
  std::vector<int64_t> hidden;  // widths; empty: a linear classifier
  int64_t classes;
  double dropout = 0;
};

class Mlp : public Classifier {
 public:
  Mlp(Initializer& init, const MlpOptions& options, double label_smoothing);

 private:
  void add_layer(std::shared_ptr<Linear> linear, size_t index, bool is_last);

  double dropout_;
};

}  // namespace estrain::model
