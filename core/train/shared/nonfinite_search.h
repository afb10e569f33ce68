#pragma once
// Finds the EST and the tensor behind a step whose sums are not finite. A sum does not tell whose NaN it holds, and to
// ask every EST's every gradient as it comes would cost each step a pass over memory. But a step is deterministic: one
// worker runs the mini-batches of all ESTs once more, in the order of their virtual ranks, and asks.

#include "core/base/error.h"
#include "core/comm/records/nonfinite.h"
#include "core/train/shared/updater.h"
#include "core/train/workplace/workplace.h"

namespace estrain::train {

// Searches the step that follows `step`, the committed one, whose parameters the model reads, after a loss that is not
// finite or a record marked as suspect. Finds the first EST with a gradient that is not finite, or else with such a
// loss; if there is none, the result that the update made of finite gradients. Leaves no trace in the state. Beats
// `pulse` before every mini-batch. The result does not count if the stage is aborted.
comm::Nonfinite find_nonfinite(Workplace& place, const Updater& updater, Step step, comm::WorkerPulse& pulse);

// The error that ends the job: Fault::infeasible, "step t: the gradient of … is NaN (virtual rank r; …)", advising to
// look at the samples concerned.
Error nonfinite_error(const Job& job, Step step, const comm::Nonfinite& found);

}  // namespace estrain::train
