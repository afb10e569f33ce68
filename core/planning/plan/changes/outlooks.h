#pragma once
// Estimates the gain from adding devices of a group, counting only the pace: a cheap first look, to select additions
// worth planning.

#include <cstdint>
#include <vector>

#include "core/planning/plan/changes/offer.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {

struct Outlook {
  Counts added;
  double speed_up_per_device = 0;  // an estimate; above 0
};

// Returns, for every pace reachable with added devices of a group, the smallest number for this pace. Assumes work for
// all held devices, and a single partial sum from each worker. `together`: the groups that may work together.
std::vector<Outlook> outlooks(const Offer& offer, const std::vector<int64_t>& together);

}  // namespace estrain::plan
