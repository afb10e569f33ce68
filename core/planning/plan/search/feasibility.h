#pragma once
// Checks a job and its devices before planning.

#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

// Throws Fault::infeasible, with advice, for fewer than one EST, coefficients or capabilities other than
// positive finite numbers, counts or memory limits below 0, or no device. Does not check whether all ESTs
// fit.
void check_job(const PlannedJob& job);
void check_groups(const std::vector<DeviceGroup>& groups);

// Throws Fault::infeasible if the workers are not a plan for this job on these groups.
void check_workers(const PlannedJob& job, const std::vector<DeviceGroup>& groups,
                   const std::vector<WorkerShare>& workers);

// Throws the error for ESTs that fit on no set of this many devices.
[[noreturn]] void throw_no_room(const PlannedJob& job, const std::vector<DeviceGroup>& groups, int64_t most_workers);

}  // namespace estrain::plan
