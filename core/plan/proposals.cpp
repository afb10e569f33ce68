#include "core/plan/proposals.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/plan/feasibility.h"
#include "core/plan/fleet.h"

namespace estrain::plan {
namespace {

using Counts = std::vector<int64_t>;  // devices of each group

// So many plans are made for one answer: each takes milliseconds where there are thousands of devices.
constexpr int64_t kMostPlans = 32;
// Differences below this are rounding.
constexpr double kRounding = 1e-9;

bool alike(const DeviceGroup& a, const DeviceGroup& b) {
  return a.kind == b.kind && a.mini_batches_per_second == b.mini_batches_per_second && a.most_ests == b.most_ests;
}

int64_t sum(const Counts& counts) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  return total;
}

// "2 cpu:avx2 and 1 cpu:sse", of the groups of which there are some.
std::string listed(const std::vector<DeviceGroup>& groups, const Counts& counts) {
  std::map<std::string, int64_t> of_kind;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) of_kind[groups[i].kind] += std::abs(counts[i]);
  }
  std::string text;
  size_t nth = 0;
  for (const auto& [kind, count] : of_kind) {
    const char* separator = nth == 0 ? "" : nth + 1 == of_kind.size() ? " and " : ", ";
    text += fmt::format("{}{} {}", separator, count, kind);
    ++nth;
  }
  return text;
}

Counts used_by(const Plan& plan, size_t groups) {
  Counts used(groups);
  for (const Share& share : plan.workers) ++used[static_cast<size_t>(share.group)];
  return used;
}

std::vector<DeviceGroup> with_counts(std::vector<DeviceGroup> groups, const Counts& counts) {
  for (size_t i = 0; i < groups.size(); ++i) groups[i].count = counts[i];
  return groups;
}

// A job with the devices it holds and those it could hold, in one list of groups.
class Offer {
 public:
  Offer(const Job& job, const std::vector<DeviceGroup>& held, const std::vector<DeviceGroup>& free)
      : job_(job), before_(best_plan(job, held)), groups_(held), free_(held.size()) {
    if (!free.empty()) check_groups_or_none(free);
    for (const DeviceGroup& group : held) held_.push_back(group.count);
    for (const DeviceGroup& group : free) add(group);
  }

  const Job& job() const { return job_; }
  const std::vector<DeviceGroup>& groups() const { return groups_; }
  const Counts& held() const { return held_; }
  const Counts& free() const { return free_; }
  const Plan& before() const { return before_; }

  // The best plan if so many were added; of those, only the ones it uses.
  Proposal adding(const Counts& added) const {
    Counts counts = held_;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += added[i];
    Plan plan = best_plan(job_, with_counts(groups_, counts));
    const Counts used = used_by(plan, counts.size());
    Counts change(counts.size());
    for (size_t i = 0; i < counts.size(); ++i) change[i] = std::max<int64_t>(0, used[i] - held_[i]);
    return proposal(std::move(change), std::move(plan));
  }

  Proposal proposal(Counts change, Plan plan) const {
    Proposal made;
    Counts counts = held_;
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] += change[i];
      made.devices_changed += std::abs(change[i]);
    }
    made.devices = with_counts(groups_, counts);
    made.change = std::move(change);
    made.speed_up = plan.throughput / before_.throughput;
    if (made.devices_changed > 0) {
      made.speed_up_per_device = (made.speed_up - 1) / static_cast<double>(made.devices_changed);
    }
    made.plan = std::move(plan);
    return made;
  }

 private:
  static void check_groups_or_none(std::vector<DeviceGroup> free) {
    for (DeviceGroup& group : free) group.count += group.count == 0 ? 1 : 0;  // to offer nothing is no mistake
    check_groups(free);
  }
  void add(const DeviceGroup& group) {
    const auto same = std::ranges::find_if(groups_, [&](const DeviceGroup& other) { return alike(group, other); });
    if (same != groups_.end()) {
      free_[static_cast<size_t>(same - groups_.begin())] += std::min(group.count, job_.ests);
      return;
    }
    groups_.push_back(group);
    groups_.back().count = 0;
    held_.push_back(0);
    free_.push_back(std::min(group.count, job_.ests));
  }

  const Job& job_;
  Plan before_;
  std::vector<DeviceGroup> groups_;
  Counts held_, free_;
};

// What adding devices of one group would bring if nothing but the pace counted: a first look, at next to no cost.
struct Outlook {
  Counts added;
  double speed_up_per_device = 0;
};

class Outlooks {
 public:
  Outlooks(const Offer& offer, const std::vector<int64_t>& together) : offer_(offer), together_(together) {}

  // For every pace that a group could bring about, the fewest devices of it that do.
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

// All that is free of the given groups.
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

// What may be added, to be planned for.
std::set<Counts> ways_to_grow(const Offer& offer) {
  std::set<Counts> ways;
  for (size_t group = 0; group < offer.groups().size(); ++group) {
    ways.insert(all_free(offer, {static_cast<int64_t>(group)}));
  }
  Job mixed = offer.job();
  mixed.one_kind = true;  // also at D2 a kind may be wanted for itself
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

// Rounded, so that equals are equals.
double rounded(double value) { return std::round(value / kRounding) * kRounding; }

void keep_best(std::vector<Proposal>& proposals, int64_t k) {
  if (std::ssize(proposals) > k) proposals.resize(static_cast<size_t>(std::max<int64_t>(k, 0)));
}

// Groups listed for a message, or for choosing among equals: the speed that is given up.
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

// Whether what is left takes all ESTs.
bool can_host(const Offer& offer, const Counts& given_up) {
  Counts counts = offer.held();
  for (size_t i = 0; i < counts.size(); ++i) counts[i] -= given_up[i];
  const std::vector<DeviceGroup> left = with_counts(offer.groups(), counts);
  return std::ranges::any_of(mixable(offer.job(), left), [&](const std::vector<int64_t>& together) {
    const Fleet fleet(left, together, offer.job());
    return fleet.fewest_workers() <= fleet.most_workers();
  });
}

// Groups in the order in which devices are given up where it makes no difference: slowest first.
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

// The least loss there can be: the best plan with as many workers as there will be devices, and nobody of those that it
// leaves out is missed.
Counts least_missed(const Offer& offer, int64_t fewer) {
  const Plan plan = best_plan(offer.job(), offer.groups(), sum(offer.held()) - fewer);
  Counts spare = offer.held();
  for (const Share& share : plan.workers) --spare[static_cast<size_t>(share.group)];
  return slowest_of(offer.groups(), spare, fewer);
}

// All ways of giving up `fewer` devices of the groups from `group` on, as long as there are few.
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
  if (std::ssize(ways) > kMostPlans) {  // then from one group, as far as it reaches
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

std::vector<Proposal> grow(const Job& job, const std::vector<DeviceGroup>& held, const std::vector<DeviceGroup>& free,
                           int64_t k) {
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

std::vector<Proposal> shrink(const Job& job, const std::vector<DeviceGroup>& held, int64_t fewer, int64_t k) {
  if (fewer < 1) {
    throw Error::make(Fault::usage, "{} devices to be given up: must be at least 1", fewer)
        .advise("say how many devices are wanted back");
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

Proposal shrink_by(const Job& job, const std::vector<DeviceGroup>& held, const std::vector<int64_t>& taken) {
  check_job(job);
  check_groups(held);
  int64_t fewer = 0;
  for (size_t i = 0; i < std::max(taken.size(), held.size()); ++i) {
    const int64_t count = i < taken.size() ? taken[i] : 0, at_hand = i < held.size() ? held[i].count : 0;
    if (count < 0 || count > at_hand) {
      throw Error::make(Fault::infeasible, "{} devices taken of group {}, of which {} are held", count, i, at_hand)
          .advise("take only devices that the job holds");
    }
    fewer += count;
  }
  check_some_left(held, fewer);
  Counts given_up = taken;
  given_up.resize(held.size());
  return giving_up(Offer(job, held, {}), given_up);
}

}  // namespace estrain::plan
