#pragma once
// A split of all ESTs over given devices within what each can host, with few partial sums: made from left to right,
// each cut as aligned as the room that is left allows. Takes a time in proportion to the devices; not always the best.

#include <cstdint>
#include <vector>

#include "core/plan/fleet.h"
#include "core/plan/plan.h"

namespace estrain::plan {

// The best of several orders of the devices and ways of spending the room to spare. `capacities` are largest first; the
// first `workers` devices of them must be able to host the ESTs and be at least as many.
std::vector<Share> greedy_split(int64_t ests, int64_t workers, const std::vector<Capacity>& capacities);

}  // namespace estrain::plan
