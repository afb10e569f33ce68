#include "core/engine/model/zoo/classifier.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "core/engine/model/class_scores.h"

namespace estrain::model {
namespace {

torch::Tensor by_prediction(const torch::Tensor& logits) { return logits.view({-1, logits.size(-1)}); }

}  // namespace

torch::Tensor Classifier::compute_loss(const MiniBatch& batch) {
  const torch::Tensor target = batch.target.is_floating_point() ? batch.target : batch.target.reshape(-1);
  return at::cross_entropy_loss(by_prediction(forward(batch.input)), target, /*weight=*/{}, at::Reduction::Mean,
                                ignored_class, label_smoothing_);
}

EvaluatedBatch Classifier::compute_evaluation(const MiniBatch& batch) {
  const torch::Tensor logits = by_prediction(forward(batch.input));
  const torch::Tensor target = batch.target.reshape(-1);
  const torch::Tensor losses =
      at::cross_entropy_loss(logits, target, /*weight=*/{}, at::Reduction::None, ignored_class);
  return evaluation_of_classes(wanted(), logits, target, losses, batch.target.size(0));
}

}  // namespace estrain::model
