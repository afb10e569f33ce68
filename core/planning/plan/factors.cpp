#include "core/planning/plan/factors.h"

#include <algorithm>
#include <limits>

namespace estrain::plan {

// A host sends the factors of its ESTs to each other host, and receives the factors of all other ESTs. Partial sums and
// sums are 2 (H-1)/H of the bytes of a gradient, each way. Of N ESTs a host has N/H or more, and a place has a
// gradient's bytes divided by N: factors that do not fit in their place are too large.
FactorChoice choice_of(const FactorOffers& offers, bool always) {
  size_t ests = 0;
  for (const FactorOffers::OfHost& host : offers.hosts) ests += host.ests;
  const auto hosts = static_cast<double>(offers.hosts.size());
  const size_t bytes = offers.hosts.front().bytes;
  double moved = 0, seconds = 0, waited = std::numeric_limits<double>::infinity();
  for (const FactorOffers::OfHost& host : offers.hosts) {
    if (host.bytes == 0 || host.bytes != bytes) return FactorChoice::without;
    const auto elsewhere = static_cast<double>(ests - host.ests);
    moved =
        std::max(moved, static_cast<double>(bytes) * std::max(static_cast<double>(host.ests) * (hosts - 1), elsewhere));
    seconds = std::max(seconds, elsewhere * host.seconds);
    waited = std::min(waited, host.waited_seconds);
  }
  const double of_sums = 2 * (hosts - 1) / hosts;
  const double saved = of_sums * offers.gradient_bytes - moved;
  if (2 * moved >= of_sums * offers.gradient_bytes) return FactorChoice::too_large;
  const bool saves_time = always || 2 * seconds < waited * saved / (of_sums * offers.bytes_of_all);
  return saves_time ? FactorChoice::sent : FactorChoice::too_slow;
}

}  // namespace estrain::plan
