#pragma once
// The learning rates of a step. They depend on the step alone, or with schedule "plateau" also on evaluations. Then the
// state holds what the schedule knows of them, so that a resume, a recovery and any placement continue with the same
// bits. Copy t does not include the evaluation of step t: the next update adds it.

#include <vector>

#include "core/engine/train/job/job.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Rates of the parameter groups for the update after `step`, whose state is at `state`. An evaluation that is due after
// `step` must be complete.
std::vector<double> learning_rates(Job& job, comm::JobMemory& memory, Step step, std::byte* state);

// Part of that update: writes what schedule and early_stop.h know into the state of step + 1.
void keep_schedule(Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state);

// Whether the evaluation after `step` must be done: it was not, or its results are no longer in memory.
bool needs_evaluation(const Job& job, const comm::JobMemory& memory, Step step);

}  // namespace estrain::train
