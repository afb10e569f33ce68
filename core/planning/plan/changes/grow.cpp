#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/planning/plan/changes/offer.h"
#include "core/planning/plan/changes/proposals.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {
namespace {

struct Outlook {
  Counts added;
  double speed_up_per_device = 0;  // an estimate; above 0
};

// Estimates the gain from adding devices of a group, counting only the pace: a cheap first look, to select additions
// worth planning. For every pace reachable with added devices of a group, `all` has the smallest number for this pace.
// Assumes work for all held devices, and a single partial sum from each worker. `together`: the groups that may work
// together.
class Outlooks {
 public:
  Outlooks(const Offer& offer, const std::vector<int64_t>& together) : offer_(offer), together_(together) {}

  std::vector<Outlook> all() const {
    const Fleet fleet = everything();
    std::vector<Outlook> found;
    if (fleet.fewest_workers() > fleet.most_workers()) return found;
    const double now = offer_.before().step_seconds;
    std::optional<double> pace = fleet.shortest_pace(std::max(fleet.fewest_workers(), fleet.most_workers()));
    Counts last(offer_.groups().size());
    for (int left = kMostPaces; pace && *pace < now && left > 0; --left) {
      for (const int64_t group : together_) consider(group, *pace, last, found);
      pace = fleet.next_pace(*pace);
    }
    return found;
  }

 private:
  static constexpr int kMostPaces = 50'000;

  Fleet everything() const {
    Counts counts = offer_.held();
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += offer_.free()[i];
    return Fleet(with_counts(offer_.groups(), counts), together_, offer_.job());
  }

  void consider(int64_t group, double pace, Counts& last, std::vector<Outlook>& found) const {
    const auto g = static_cast<size_t>(group);
    int64_t left = offer_.job().ests, workers = 0;
    for (const int64_t other : together_) {
      const auto o = static_cast<size_t>(other);
      const int64_t each = capacity(offer_.groups()[o], pace);
      if (each == 0) continue;
      const int64_t devices = std::min(offer_.held()[o], offer_.job().ests);
      workers += devices;
      left -= std::min(left, devices * std::min(each, offer_.job().ests));
    }
    const int64_t each = capacity(offer_.groups()[g], pace);
    if (each == 0 || left == 0) return;
    const int64_t needed = (left + each - 1) / each;
    if (needed > offer_.free()[g] || needed == last[g]) return;
    last[g] = needed;
    add(g, needed, std::min(workers + needed, offer_.job().ests), pace, found);
  }

  void add(size_t group, int64_t needed, int64_t workers, double pace, std::vector<Outlook>& found) const {
    const double step = offer_.job().crowding_of(workers) * pace + offer_.job().exchange.seconds(workers, workers);
    Outlook estimate{Counts(offer_.groups().size()), 0};
    estimate.added[group] = needed;
    estimate.speed_up_per_device = (offer_.before().step_seconds / step - 1) / static_cast<double>(needed);
    if (estimate.speed_up_per_device > 0) found.push_back(std::move(estimate));
  }

  const Offer& offer_;
  const std::vector<int64_t>& together_;
};

// Returns all free devices of the given groups.
Counts all_free(const Offer& offer, const std::vector<int64_t>& of) {
  Counts added(offer.groups().size());
  for (const int64_t group : of) added[static_cast<size_t>(group)] = offer.free()[static_cast<size_t>(group)];
  return added;
}

void add_every_number(const Offer& offer, std::set<Counts>& ways) {
  for (size_t group = 0; group < offer.groups().size(); ++group) {
    for (int64_t count = 1; count <= offer.free()[group]; ++count) {
      Counts added(offer.groups().size());
      added[group] = count;
      ways.insert(added);
    }
  }
}

void add_best_estimates(const Offer& offer, std::set<Counts>& ways) {
  std::vector<Outlook> estimates;
  for (const std::vector<int64_t>& together : mixable(offer.job(), offer.groups())) {
    std::ranges::move(Outlooks(offer, together).all(), std::back_inserter(estimates));
  }
  std::ranges::stable_sort(estimates, std::greater(), &Outlook::speed_up_per_device);
  for (const Outlook& estimate : estimates) {
    if (std::ssize(ways) >= kMostPlans) return;
    ways.insert(estimate.added);
  }
}

// Returns the additions for which plans are made.
std::set<Counts> ways_to_grow(const Offer& offer) {
  std::set<Counts> ways;
  for (size_t group = 0; group < offer.groups().size(); ++group) {
    ways.insert(all_free(offer, {static_cast<int64_t>(group)}));
  }
  PlannedJob mixed = offer.job();
  mixed.one_kind = true;  // even at D2, adding a single kind is worth trying
  for (const std::vector<int64_t>& kind : mixable(mixed, offer.groups())) ways.insert(all_free(offer, kind));
  ways.insert(offer.free());
  if (sum(offer.free()) <= kMostPlans) {
    add_every_number(offer, ways);
  } else {
    add_best_estimates(offer, ways);
  }
  std::erase_if(ways, [](const Counts& added) { return sum(added) == 0; });
  return ways;
}

std::string reason_to_grow(const Offer& offer, const Proposal& proposal) {
  const Counts used = used_by(proposal.plan, proposal.devices.size());
  int64_t stay = 0;
  for (size_t i = 0; i < used.size(); ++i) stay += std::min(used[i], offer.held()[i]);
  return fmt::format("{} {}: {:.2f} times as fast, {:+.1f} % for each device", stay == 0 ? "moves to" : "adds",
                     listed(proposal.devices, proposal.change), proposal.speed_up, 100 * proposal.speed_up_per_device);
}

}  // namespace

std::vector<Proposal> grow(const PlannedJob& job, const std::vector<DeviceGroup>& held,
                           const std::vector<DeviceGroup>& free, int64_t k) {
  const Offer offer(job, held, free);
  std::map<Counts, Proposal> by_change;
  for (const Counts& added : ways_to_grow(offer)) {
    Proposal proposal = offer.adding(added);
    if (proposal.devices_changed == 0 || proposal.speed_up <= 1 + kRounding) continue;
    proposal.reason = reason_to_grow(offer, proposal);
    by_change.emplace(proposal.change, std::move(proposal));
  }
  std::vector<Proposal> proposals;
  for (auto& [change, proposal] : by_change) proposals.push_back(std::move(proposal));
  std::ranges::stable_sort(proposals, std::greater(), [](const Proposal& proposal) {
    return std::pair(rounded(proposal.speed_up_per_device), proposal.devices_changed);
  });
  keep_best(proposals, k);
  return proposals;
}

}  // namespace estrain::plan
