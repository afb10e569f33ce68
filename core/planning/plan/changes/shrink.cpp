#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/planning/plan/changes/offer.h"
#include "core/planning/plan/changes/proposals.h"
#include "core/planning/plan/search/feasibility.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {
namespace {

// Returns the total mini-batches per second of the devices given up.
double rates_given_up(const Proposal& proposal) {
  double rates = 0;
  for (size_t i = 0; i < proposal.change.size(); ++i) {
    rates -= static_cast<double>(proposal.change[i]) * proposal.devices[i].mini_batches_per_second;
  }
  return rates;
}

Proposal giving_up(const Offer& offer, const Counts& given_up) {
  Counts change(given_up.size()), counts = offer.held();
  for (size_t i = 0; i < given_up.size(); ++i) {
    change[i] = -given_up[i];
    counts[i] -= given_up[i];
  }
  Proposal made = offer.proposal(change, best_plan(offer.job(), with_counts(offer.groups(), counts)));
  made.reason = made.speed_up > 1 - kRounding
                    ? fmt::format("gives up {}, which cost nothing", listed(made.devices, made.change))
                    : fmt::format("gives up {}: {:.2f} times as fast, {:.1f} % less for each device",
                                  listed(made.devices, made.change), made.speed_up, -100 * made.speed_up_per_device);
  return made;
}

// Returns whether the remaining devices can host all ESTs.
bool can_host(const Offer& offer, const Counts& given_up) {
  Counts counts = offer.held();
  for (size_t i = 0; i < counts.size(); ++i) counts[i] -= given_up[i];
  const std::vector<DeviceGroup> left = with_counts(offer.groups(), counts);
  return std::ranges::any_of(mixable(offer.job(), left), [&](const std::vector<int64_t>& together) {
    const Fleet fleet(left, together, offer.job());
    return fleet.fewest_workers() <= fleet.most_workers();
  });
}

// The order in which to give up devices if the plan does not decide: slowest first.
std::vector<size_t> slowest_first(const std::vector<DeviceGroup>& groups) {
  std::vector<size_t> order(groups.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::less(), [&](size_t i) { return groups[i].mini_batches_per_second; });
  return order;
}

// `fewer` devices, at most `spare` of each group, slowest first.
Counts slowest_of(const std::vector<DeviceGroup>& groups, const Counts& spare, int64_t fewer) {
  Counts given_up(groups.size());
  for (const size_t i : slowest_first(groups)) {
    given_up[i] = std::min(spare[i], fewer);
    fewer -= given_up[i];
  }
  return given_up;
}

// Returns the least possible loss: takes the best plan with as many workers as devices will remain, and gives up unused
// devices.
Counts least_missed(const Offer& offer, int64_t fewer) {
  const Plan plan = best_plan(offer.job(), offer.groups(), sum(offer.held()) - fewer);
  Counts spare = offer.held();
  for (const WorkerShare& share : plan.workers) --spare[static_cast<size_t>(share.group)];
  return slowest_of(offer.groups(), spare, fewer);
}

// Adds all ways to give up `fewer` devices of the groups from `group` on, while there are few.
void add_every_way(const Counts& held, size_t group, int64_t fewer, Counts& given_up, std::set<Counts>& ways) {
  if (std::ssize(ways) > 2 * kMostPlans) return;
  if (fewer == 0) {
    ways.insert(given_up);
    return;
  }
  if (group == held.size()) return;
  for (int64_t count = std::min(held[group], fewer); count >= 0; --count) {
    given_up[group] = count;
    add_every_way(held, group + 1, fewer - count, given_up, ways);
  }
  given_up[group] = 0;
}

std::set<Counts> ways_to_shrink(const Offer& offer, int64_t fewer) {
  std::set<Counts> ways;
  Counts none(offer.groups().size());
  add_every_way(offer.held(), 0, fewer, none, ways);
  if (std::ssize(ways) > kMostPlans) {  // then take from one group as far as possible
    ways.clear();
    for (size_t i = 0; i < offer.groups().size() && std::ssize(ways) < kMostPlans; ++i) {
      Counts spare = offer.held();
      const int64_t first = std::min(std::exchange(spare[i], 0), fewer);
      Counts given_up = slowest_of(offer.groups(), spare, fewer - first);
      given_up[i] = first;
      ways.insert(given_up);
    }
  }
  ways.insert(least_missed(offer, fewer));
  return ways;
}

void check_some_left(const std::vector<DeviceGroup>& held, int64_t fewer) {
  int64_t total = 0;
  for (const DeviceGroup& group : held) total += group.count;
  if (fewer < total) return;
  throw Error::make(Fault::infeasible, "giving up {} of {} devices leaves none to train on", fewer, total)
      .advise("stop the job with a checkpoint instead");
}

}  // namespace

std::vector<Proposal> shrink(const PlannedJob& job, const std::vector<DeviceGroup>& held, int64_t fewer, int64_t k) {
  if (fewer < 1) {
    throw Error::make(Fault::usage, "{} devices to be given up: must be at least 1", fewer)
        .advise("say how many devices to give up");
  }
  check_job(job);
  check_groups(held);
  check_some_left(held, fewer);
  const Offer offer(job, held, {});
  std::vector<Proposal> proposals;
  for (const Counts& given_up : ways_to_shrink(offer, fewer)) {
    if (can_host(offer, given_up)) proposals.push_back(giving_up(offer, given_up));
  }
  std::ranges::stable_sort(proposals, std::less(), [](const Proposal& proposal) {
    return std::pair(-rounded(proposal.speed_up), rates_given_up(proposal));
  });
  keep_best(proposals, k);
  return proposals;
}

}  // namespace estrain::plan
