#pragma once
// Estimates the gain from adding devices of one group, counting only the pace. A cheap first look that selects the
// additions worth planning.

#include <cstdint>
#include <vector>

#include "core/planning/plan/changes/offer.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {

struct Outlook {
  Counts added;
  double speed_up_per_device = 0;  // an estimate; above 0
};

// For every pace reachable with added devices of one group, the smallest number that reaches it. Assumes that all held
// devices work, and that every worker passes on one partial sum. `together`: the groups that may work together.
std::vector<Outlook> outlooks(const Offer& offer, const std::vector<int64_t>& together);

}  // namespace estrain::plan
