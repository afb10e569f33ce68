#pragma once
// The batches of jobs whose owners let the pool change the batch.

#include "core/planning/dispatch/shared_speeds.h"
#include "core/planning/dispatch/state.h"
#include "core/planning/scheduling/policy.h"

namespace estrain::dispatch {

// Chooses the job's batch by the policy's rule. The pool asks for this batch once the job runs on its devices. Takes a
// choice back if the job was not asked for the batch yet.
void choose_batch(State& state, const scheduling::PolicyChoice& policy, const SharedSpeeds& shared, Job& job,
                  double now);

}  // namespace estrain::dispatch
