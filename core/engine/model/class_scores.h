#pragma once
// Evaluates the results of models that score classes.

#include "core/engine/model/model.h"

namespace estrain::model {

inline constexpr int64_t ignored_class = -100;  // torch's ignore_index: the target of an ignored prediction

// Returns the weights of the predictions, [predictions]: the weight of the target's class, 0 for an ignored target.
// `weights`: of the classes, [classes].
torch::Tensor weights_of_targets(const torch::Tensor& target, const torch::Tensor& weights);

// Returns the weight of all predictions, a scalar: the sum of weights_of_targets(), or without weights the number of
// the targets that are not ignored. A target of probabilities, [predictions, classes, ...], has as many predictions as
// torch's mean of such a loss divides by: elements over classes.
torch::Tensor total_weight(const torch::Tensor& target, const std::optional<torch::Tensor>& weights);

// scores: [predictions, classes]; target: int64 [predictions], classes or ignored_class; losses: [predictions], 0 where
// the target is ignored; `weights`: of the classes; samples: number of samples, each with the same number of
// predictions. Throws Fault::spec if `wanted` asks for the class of a sample and a sample has several classes.
EvaluatedBatch evaluation_of_classes(const MetricsWanted& wanted, const torch::Tensor& scores,
                                     const torch::Tensor& target, const torch::Tensor& losses, int64_t samples,
                                     const std::optional<torch::Tensor>& weights = {});

}  // namespace estrain::model
