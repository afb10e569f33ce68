#include "core/engine/model/class_scores.h"

#include "core/base/error.h"

namespace estrain::model {
namespace {

// Returns the columns of EvaluatedBatch named by `wanted`, in the order of `wanted`.
std::vector<torch::Tensor> class_columns(const MetricsWanted& wanted, const torch::Tensor& scores,
                                         const torch::Tensor& target, int64_t samples,
                                         const std::optional<torch::Tensor>& weights) {
  std::vector<torch::Tensor> columns;
  if (!wanted.top_k.empty()) {
    const torch::Tensor own = scores.gather(1, target.clamp_min(0).unsqueeze(1));
    const torch::Tensor likelier = scores.gt(own).sum(1), known = target.ge(0);
    for (const int64_t k : wanted.top_k)
      columns.push_back(likelier.lt(k).logical_and(known).view({samples, -1}).sum(1).to(torch::kFloat));
  }
  if (wanted.target_class && target.numel() != samples)
    throw Error(Fault::spec, "train.per_class is for data with one class for each sample").advise("leave it out");
  if (wanted.target_class) columns.push_back(target.to(torch::kFloat));
  if (wanted.target_weight)
    columns.push_back(weights_of_targets(target, *weights).to(torch::kFloat).view({samples, -1}).mean(1));
  return columns;
}

}  // namespace

torch::Tensor weights_of_targets(const torch::Tensor& target, const torch::Tensor& weights) {
  return weights.index_select(0, target.reshape(-1).clamp_min(0)) * target.reshape(-1).ne(ignored_class);
}

torch::Tensor total_weight(const torch::Tensor& target, const std::optional<torch::Tensor>& weights) {
  if (target.is_floating_point())
    return torch::scalar_tensor(target.numel() / target.size(1), torch::dtype(torch::kFloat).device(target.device()));
  return weights ? weights_of_targets(target, *weights).sum() : target.ne(ignored_class).sum();
}

EvaluatedBatch evaluation_of_classes(const MetricsWanted& wanted, const torch::Tensor& scores,
                                     const torch::Tensor& target, const torch::Tensor& losses, int64_t samples,
                                     const std::optional<torch::Tensor>& weights) {
  const auto by_sample = [samples](const torch::Tensor& values) { return values.reshape({samples, -1}); };
  return {by_sample(losses.to(torch::kFloat)).mean(1), by_sample(scores.argmax(1).eq(target)).sum(1),
          by_sample(target.ne(ignored_class)).sum(1), class_columns(wanted, scores, target, samples, weights)};
}

}  // namespace estrain::model
