#pragma once
// From numbers of devices to places, on a cluster whose devices are of one type.

#include <cstdint>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

// One placement for each job of the view, of `counts[i]` devices; 0: none. A job that keeps its number keeps its place.
// The others are packed onto few hosts, the largest first, near where they were. A placement is empty if its devices
// do not fit.
std::vector<Placement> place_counts(const View& view, const std::vector<int64_t>& counts);

}  // namespace estrain::scheduling
