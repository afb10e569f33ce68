#pragma once
// What adding devices of one group would bring if nothing but the pace counted: a first look, at next to no cost, which
// says what is worth planning for.

#include <cstdint>
#include <vector>

#include "core/plan/fleet.h"
#include "core/plan/offer.h"

namespace estrain::plan {

struct Outlook {
  Counts added;
  double speed_up_per_device = 0;  // an estimate; above 0
};

// For every pace that devices of one group could bring about, the fewest devices of it that do: all that is held works,
// and every worker passes on one partial sum. `together`: the groups that may work together.
std::vector<Outlook> outlooks(const Offer& offer, const std::vector<int64_t>& together);

}  // namespace estrain::plan
