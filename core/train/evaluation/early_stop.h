#pragma once
// Whether a job ends before its last step, since its evaluations no longer get better ([early_stop]).
//
// The state carries the best metric so far and how many evaluations in a row were no better, as of the update that made
// it; the evaluation of its own step is added by a caller that asks, and by the update that follows. So every worker, a
// resume and any placement end after the same step. NaN is no better than anything.

#include "core/comm/job_memory.h"
#include "core/train/job/job.h"

namespace estrain::train {

// Into the first state.
void write_first_early_stop(const Job& job, std::byte* state);

// After the evaluation of `step`, whose state is at `state`: whether the job ends here.
bool ends_early(const Job& job, comm::JobMemory& memory, Step step, std::byte* state);

// Part of the update that follows `step`: takes over what is known of evaluations.
void keep_early_stop(const Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state);

}  // namespace estrain::train
