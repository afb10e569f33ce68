#pragma once
// Splits all ESTs over given devices within their capacities, with few partial sums. Works from left to right and
// aligns each cut as far as the remaining room allows. Linear in the number of devices; not always optimal.

#include <cstdint>
#include <vector>

#include "core/planning/plan/plan.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {

// Returns the best result over several orders of the devices and ways to spend the spare room. `capacities` are largest
// first; at least `workers` devices are needed, and the first `workers` must be able to host all ESTs.
std::vector<WorkerShare> greedy_split(int64_t ests, int64_t workers, const std::vector<Capacity>& capacities);

}  // namespace estrain::plan
