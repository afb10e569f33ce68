#pragma once
// From the scores of classes to the results of an evaluation.

#include "core/model/model.h"

namespace estrain::model {

// scores: [predictions, classes]; target: int64 [predictions], negative: of no class; samples: that the predictions
// belong to, each with as many. What `wanted` asks of them, in its order: the columns of Evaluation. Throws Fault::spec
// where the class of a sample is wanted and a sample has several.
std::vector<torch::Tensor> class_columns(const MetricsWanted& wanted, const torch::Tensor& scores,
                                         const torch::Tensor& target, int64_t samples);

}  // namespace estrain::model
