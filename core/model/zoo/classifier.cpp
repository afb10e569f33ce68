#include "core/model/zoo/classifier.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "core/model/class_scores.h"

namespace estrain::model {
namespace {

constexpr int64_t kNoIgnoredClass = -100;  // PyTorch's default ignore_index

torch::Tensor by_prediction(const torch::Tensor& logits) { return logits.view({-1, logits.size(-1)}); }

}  // namespace

torch::Tensor Classifier::compute_loss(const Batch& batch) {
  return at::cross_entropy_loss(by_prediction(forward(batch.input)), batch.target.reshape(-1), /*weight=*/{},
                                at::Reduction::Mean, kNoIgnoredClass, label_smoothing_);
}

Evaluation Classifier::compute_evaluation(const Batch& batch) {
  const torch::Tensor logits = by_prediction(forward(batch.input));
  const torch::Tensor target = batch.target.reshape(-1);
  const int64_t samples = batch.target.size(0);
  const torch::Tensor losses = at::cross_entropy_loss(logits, target, /*weight=*/{}, at::Reduction::None);
  const torch::Tensor correct = logits.argmax(1).eq(target);
  return {losses.view({samples, -1}).mean(1), correct.view({samples, -1}).sum(1), target.numel() / samples,
          class_columns(wanted(), logits, target, samples)};
}

}  // namespace estrain::model
