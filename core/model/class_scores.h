#pragma once
// An evaluation's metrics from the scores of classes.

#include "core/model/model.h"

namespace estrain::model {

// Returns the columns of Evaluation that `wanted` asks for, in its order. scores: [predictions, classes]; target: int64
// [predictions], negative where there is no class; samples: number of samples, each with the same number of
// predictions. Throws Fault::spec if the class of a sample is wanted and a sample has several.
std::vector<torch::Tensor> class_columns(const MetricsWanted& wanted, const torch::Tensor& scores,
                                         const torch::Tensor& target, int64_t samples);

}  // namespace estrain::model
