#pragma once
// The learning rates of a step: by the schedule alone, or by what evaluations gave (schedule "plateau"). In the second
// case the state carries what the schedule has learnt, so that a resume, a recovery and any placement go on with the
// same bits: copy t holds it as of the update that made step t, and the evaluation of step t, if there is one, is taken
// in by the update that follows.

#include <vector>

#include "core/comm/job_memory.h"
#include "core/train/job/job.h"

namespace estrain::train {

// Rates of the parameter groups for the update that follows `step`, whose state is at `state`. An evaluation that is
// due after `step` must be done.
std::vector<double> learning_rates(Job& job, comm::JobMemory& memory, Step step, std::byte* state);

// Part of that update: takes over what schedule and early_stop.h have learnt from the state of `step` into that of
// step + 1.
void keep_schedule(Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state);

// Whether the evaluation after `step` has yet to be done: nobody has, or its results are no longer there.
bool needs_evaluation(const Job& job, const comm::JobMemory& memory, Step step);

}  // namespace estrain::train
