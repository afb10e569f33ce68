#pragma once
// Computes the learning rates of a step. The rates depend on the step alone, or with schedule "plateau" also on
// evaluations. Then the state holds what the schedule knows of evaluations, so that a resume, a recovery and any
// placement continue with the same bits. Copy t does not include the evaluation of step t: the next update adds it.

#include <vector>

#include "core/engine/train/job/job.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Returns the rates of the parameter groups for the update after `step`. The state of `step` is at `state`. An
// evaluation due after `step` must be complete.
std::vector<double> learning_rates(TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state);

// A part of the update: writes the knowledge of schedule and early stop into the state of step + 1.
void keep_schedule(TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state);

// Returns whether the evaluation after `step` must be done: it is missing, or the results are no longer in memory.
bool needs_evaluation(const TrainingJob& job, const comm::JobMemory& memory, Step step);

}  // namespace estrain::train
