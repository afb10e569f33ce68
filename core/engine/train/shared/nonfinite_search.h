#pragma once
// Finds the EST and the tensor behind a step whose sums are not finite. A sum does not tell which EST gave the NaN, and
// checking every gradient of every EST would cost each step a pass over memory. But a step is deterministic. So one
// worker runs the mini-batches of all ESTs once more, in the order of the virtual ranks, and checks each mini-batch.

#include "core/base/error.h"
#include "core/engine/train/shared/updater.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/comm/records/nonfinite.h"

namespace estrain::train {

// Searches the step after the committed `step`; the model must read the parameters of `step`. Returns the first EST
// with a gradient that is not finite, or else with a loss that is not finite. If all ESTs are finite, returns the value
// computed by the update from finite gradients: the norm, or a result. Leaves no trace in the state. Beats `pulse`
// before every mini-batch. Ignore the result if the stage is aborted.
comm::Nonfinite find_nonfinite(Workplace& place, const Updater& updater, Step step, comm::WorkerPulse& pulse);

// Returns the error that ends the job: Fault::infeasible, "step t: the gradient of … is NaN (virtual rank r; …)", with
// the advice to look at the samples of the mini-batch.
Error nonfinite_error(const TrainingJob& job, Step step, const comm::Nonfinite& found);

}  // namespace estrain::train
