#pragma once
// Evaluates the test set after a step: each of W workers takes every W-th batch. Workers store results in shared memory
// by sample, so a sum of results does not depend on the sharing.
//
// An early stop ends a job before its last step when the results of evaluations no longer get better ([early_stop]).
// The state holds the best metric so far and the number of evaluations in a row without a better result. The state of a
// step does not include the evaluation of the same step: ends_early() and the next update add that evaluation. So every
// worker, a resume and any placement end after the same step. NaN is never better.

#include <vector>

#include "core/engine/train/job/job.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/comm/job_memory.h"

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
  // sample), of outputs over the samples; then the numbers of the user's own function.
  std::vector<double> metrics = {};
};
EvaluationResult result_of_evaluation(const TrainingJob& job, comm::JobMemory& memory);

// Calls the user's function (users_metrics.h) with the outputs of at most 64 samples, before the first step: a function
// that fails ends the job then. The model gives outputs (Model::want_outputs), and its parameters have values.
void try_users_metrics(const TrainingJob& job, device::ComputeDevice& device);

// The metrics of the user's own function of all outputs (users_metrics.h), if there is one: asks for the metrics when
// all workers of this host are done; over several hosts after exchange_results(), with all hosts
// (outputs_for_metrics.h). Returns false on abort. Throws as users_metrics() and HostsCorrespondence.
bool take_users_metrics(Workplace& place, const StageOrder& order, Step step);

// Publishes the record of mean loss and accuracy after `step`. Call this when all workers are done. False on abort.
bool publish_evaluation(Workplace& place, Step step);

// Writes the early stop's values of step 0.
void write_first_early_stop(const TrainingJob& job, std::byte* state);

// Returns whether the job ends after the evaluated `step`. `state`: the state of `step`.
bool ends_early(const TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state);

// A part of the next update: writes the values, with the evaluation of `step`, into `new_state`.
void keep_early_stop(const TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state,
                     std::byte* new_state);

}  // namespace estrain::train
