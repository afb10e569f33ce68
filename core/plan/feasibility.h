#pragma once
// What a job and its devices must be before they are planned for.

#include <vector>

#include "core/plan/plan.h"

namespace estrain::plan {

// Throws Fault::infeasible, with what is wrong and what to do: fewer than one EST, coefficients or capabilities that
// are no positive finite numbers, counts or memory limits below 0, or no device at all. Room for all ESTs is not looked
// at.
void check_job(const Job& job);
void check_groups(const std::vector<DeviceGroup>& groups);

// Throws Fault::infeasible for workers that are not a plan for this job on these groups.
void check_workers(const Job& job, const std::vector<DeviceGroup>& groups, const std::vector<Share>& workers);

// The error where no set of so many devices takes all ESTs.
[[noreturn]] void throw_no_room(const Job& job, const std::vector<DeviceGroup>& groups, int64_t most_workers);

}  // namespace estrain::plan
