#pragma once
// Evaluates the results of models that score classes.

#include "core/engine/model/model.h"

namespace estrain::model {

inline constexpr int64_t ignored_class = -100;  // torch's ignore_index: the target of an ignored prediction

// scores: [predictions, classes]; target: int64 [predictions], classes or ignored_class; losses: [predictions], 0 where
// the target is ignored; samples: number of samples, each with the same number of predictions. Throws Fault::spec if
// `wanted` asks for the class of a sample and a sample has several classes.
EvaluatedBatch evaluation_of_classes(const MetricsWanted& wanted, const torch::Tensor& scores,
                                     const torch::Tensor& target, const torch::Tensor& losses, int64_t samples);

}  // namespace estrain::model
