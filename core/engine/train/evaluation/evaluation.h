#pragma once
// Evaluates the test set after a step: each of W workers takes every W-th batch. Workers store results in shared memory
// by sample, so a sum of results does not depend on the sharing.

#include <vector>

#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

// Evaluates this worker's batches with the model's current parameters and buffers. Returns false on abort.
bool evaluate_share(Workplace& place, const StageOrder& order, Step step);

// The result of the newest evaluation in shared memory, over all samples in the order of the data set.
struct EvaluationResult {
  // Means over the predictions with a target; NaN where all targets are ignored. A loss without predictions is a mean
  // over the samples.
  double loss = 0, accuracy = 0;
  int64_t predictions = 0;  // with a target
  // Values of Manifest::metric_names: means over the predictions, of a class over the samples of the class (NaN: no
  // sample), of outputs over the samples.
  std::vector<double> metrics = {};
};
EvaluationResult result_of_evaluation(const Job& job, comm::JobMemory& memory);

// Publishes the record of mean loss and accuracy after `step`. Call this when all workers are done. False on abort.
bool publish_evaluation(Workplace& place, Step step);

}  // namespace estrain::train
