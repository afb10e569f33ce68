#pragma once
// Ends a job before its last step when its evaluations no longer get better ([early_stop]).
//
// The state holds the best metric so far and the number of evaluations in a row that were no better. These do not
// include the evaluation of its own step: ends_early() adds that, and so does the next update. So every worker, a
// resume and any placement end after the same step. NaN is no better than anything.

#include "core/engine/train/job/job.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Writes the values of step 0.
void write_first_early_stop(const Job& job, std::byte* state);

// Whether the job ends after `step`, which has been evaluated. `state`: that of `step`.
bool ends_early(const Job& job, comm::JobMemory& memory, Step step, std::byte* state);

// Part of the next update: writes the values, with the evaluation of `step`, into `new_state`.
void keep_early_stop(const Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state);

}  // namespace estrain::train
