#pragma once
// From numbers of devices to places, on a cluster with a single type of devices.

#include <cstdint>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

// Returns a placement of `counts[i]` devices for each job of the view; 0: no devices. A job with an unchanged number
// keeps its place. The rest is packed onto few hosts, the largest first, near the places of before. A placement is
// empty if its devices do not fit.
std::vector<Placement> place_counts(const View& view, const std::vector<int64_t>& counts);

}  // namespace estrain::scheduling
