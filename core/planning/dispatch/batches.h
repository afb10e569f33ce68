#pragma once
// The batches of jobs whose owners let the pool change them.

#include "core/planning/dispatch/shared_speeds.h"
#include "core/planning/dispatch/state.h"
#include "core/planning/scheduling/policy.h"

namespace estrain::dispatch {

// Chooses the job's batch by the policy's rule, to be asked for once the job runs on its devices. Takes back a choice
// that has not been asked for yet.
void choose_batch(State& state, const scheduling::PolicyChoice& policy, const SharedSpeeds& shared, Job& job,
                  double now);

}  // namespace estrain::dispatch
