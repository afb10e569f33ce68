#pragma once
// A model that scores classes: the last block returns logits [n, classes], or [n, tokens, classes] for text.

#include "core/engine/model/model.h"

namespace estrain::model {

class Classifier : public Model {
 protected:
  // Cross entropy with the target class, with label smoothing in [0, 1) as in torch.nn.CrossEntropyLoss.
  explicit Classifier(double label_smoothing) : label_smoothing_(label_smoothing) {}

 private:
  torch::Tensor compute_loss(const MiniBatch& batch) override;
  EvaluatedBatch compute_evaluation(const MiniBatch& batch) override;

  double label_smoothing_;
};

}  // namespace estrain::model
