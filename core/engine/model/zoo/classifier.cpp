#include "core/engine/model/zoo/classifier.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "core/engine/model/class_scores.h"

namespace estrain::model {
namespace {

torch::Tensor by_prediction(const torch::Tensor& logits) { return logits.view({-1, logits.size(-1)}); }

}  // namespace

torch::Tensor Classifier::compute_loss(const MiniBatch& batch) {
  const torch::Tensor logits = by_prediction(forward(batch.input));
  const torch::Tensor target = batch.target.is_floating_point() ? batch.target : batch.target.reshape(-1);
  const std::optional<torch::Tensor> weights = class_weights(logits);
  const int64_t reduction = loss_wanted().sums ? at::Reduction::Sum : at::Reduction::Mean;
  torch::Tensor loss = at::cross_entropy_loss(logits, target, weights, reduction, ignored_class, label_smoothing_);
  if (loss_wanted().sums) give(total_weight(target, weights));
  return loss;
}

EvaluatedBatch Classifier::compute_evaluation(const MiniBatch& batch) {
  const torch::Tensor output = forward(batch.input), logits = by_prediction(output);
  const torch::Tensor target = batch.target.reshape(-1);
  const std::optional<torch::Tensor> weights = class_weights(logits);
  const torch::Tensor losses = at::cross_entropy_loss(logits, target, weights, at::Reduction::None, ignored_class);
  EvaluatedBatch evaluation = evaluation_of_classes(wanted(), logits, target, losses, batch.target.size(0), weights);
  if (wants_outputs()) evaluation.outputs = {{"output", output}, {"labels", batch.target}};
  return evaluation;
}

}  // namespace estrain::model
