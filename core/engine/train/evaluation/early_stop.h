#pragma once
// Ends a job before its last step when the results of evaluations no longer get better ([early_stop]).
//
// The state holds the best metric so far and the number of evaluations in a row without a better result. The state of a
// step does not include the evaluation of the same step: ends_early() and the next update add that evaluation. So every
// worker, a resume and any placement end after the same step. NaN is never better.

#include "core/engine/train/job/job.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

// Writes the early stop's values of step 0.
void write_first_early_stop(const Job& job, std::byte* state);

// Returns whether the job ends after the evaluated `step`. `state`: the state of `step`.
bool ends_early(const Job& job, comm::JobMemory& memory, Step step, std::byte* state);

// A part of the next update: writes the values, with the evaluation of `step`, into `new_state`.
void keep_early_stop(const Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state);

}  // namespace estrain::train
