#pragma once
// Facts that must be equal on all hosts of a job: layout of the state, steps, data files; below D2, the processor.

#include "core/base/json/json.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

Json facts_of(const comm::JobMemory& memory);

// Compares the coordinator's facts with this host's facts. `any_processor`: processors may differ. Throws
// Fault::infeasible for another processor, Fault::mismatch for another job.
void require_same_facts(const Json& coordinators, const Json& own, bool any_processor);

}  // namespace estrain::hosts
