#pragma once
// Evaluates the test set after a step: each of W workers takes every W-th batch. Results are stored in shared memory by
// sample, so their sum does not depend on which worker computed them.

#include <vector>

#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/workplace/workplace.h"

namespace estrain::train {

// Evaluates this worker's batches with the parameters and buffers that place.model reads. False on abort.
bool evaluate_share(Workplace& place, const StageOrder& order, Step step);

// The result of the newest evaluation in shared memory, over all samples in their order.
struct EvaluationResult {
  // Means over the predictions that have a target; NaN where all targets are ignored. A loss without predictions is a
  // mean over the samples.
  double loss = 0, accuracy = 0;
  int64_t predictions = 0;  // that have a target
  // Manifest::metric_names: means over the predictions, of a class over its samples (NaN: there are none), of outputs
  // over the samples.
  std::vector<double> metrics = {};
};
EvaluationResult result_of_evaluation(const Job& job, comm::JobMemory& memory);

// Publishes the record of mean loss and accuracy after `step`. Call it when all workers are done. False on abort.
bool publish_evaluation(Workplace& place, Step step);

}  // namespace estrain::train
