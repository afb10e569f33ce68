#include "core/planning/plan/search/fleet.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

#include "core/planning/plan/search/figure.h"

namespace estrain::plan {

int64_t capacity(const DeviceGroup& group, double pace) {
  const double product = pace * group.mini_batches_per_second;
  const int64_t most = group.most_ests;
  if (!(product < static_cast<double>(most))) return most > 0 && pace_of(group, most) > pace ? most - 1 : most;
  auto ests = static_cast<int64_t>(product);
  // The product above is rounded; the exact condition is n / C <= pace.
  while (ests < most && pace_of(group, ests + 1) <= pace) ++ests;
  while (ests > 0 && pace_of(group, ests) > pace) --ests;
  return ests;
}

std::vector<std::vector<int64_t>> mixable(const PlannedJob& job, const std::vector<DeviceGroup>& groups) {
  std::vector<std::vector<int64_t>> sets;
  std::map<std::string_view, size_t> set_of;
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto [entry, is_new] = set_of.emplace(job.one_kind ? std::string_view(groups[i].family()) : "", sets.size());
    if (is_new) sets.emplace_back();
    sets[entry->second].push_back(static_cast<int64_t>(i));
  }
  return sets;
}

Fleet::Fleet(const std::vector<DeviceGroup>& groups, const std::vector<int64_t>& chosen, const PlannedJob& job,
             int64_t most_workers)
    : ests_(job.ests), groups_(groups) {
  for (DeviceGroup& group : groups_) {
    group.count = std::min(group.count, ests_);
    group.most_ests = std::min(group.most_ests, ests_);
  }
  for (const int64_t index : chosen) {
    if (group(index).count > 0 && group(index).most_ests > 0) members_.push_back(index);
  }
  std::ranges::stable_sort(members_, std::greater(),
                           [&](int64_t index) { return group(index).mini_batches_per_second; });
  count_workers(std::min(ests_, most_workers));
}

void Fleet::count_workers(int64_t most) {
  double rates = 0;
  for (const int64_t index : members_) {
    for (int64_t i = 0; i < group(index).count && most_workers() < most; ++i) {
      rates += group(index).mini_batches_per_second;
      devices_by_speed_.push_back({rates, group(index).mini_batches_per_second});
    }
  }
  int64_t left = ests_;
  for (const Capacity& roomiest : capacities(std::numeric_limits<double>::infinity())) {
    const int64_t devices = std::min(roomiest.count, (left + roomiest.ests - 1) / roomiest.ests);
    fewest_ += devices;
    left -= std::min(left, devices * roomiest.ests);
  }
  if (left > 0) fewest_ = most_workers() + 1;
}

double Fleet::pace_bound(int64_t workers) const {
  const Prefix& fastest = devices_by_speed_[static_cast<size_t>(workers - 1)];
  // Slightly less than the quotient: rounding of the sum must not make the bound too large.
  return std::max(static_cast<double>(ests_) / fastest.rates * (1 - 1e-9), 1 / fastest.slowest);
}

void Fleet::fill_capacities(double pace, std::vector<Capacity>& all) const {
  all.clear();
  bool sorted = true;  // members are sorted, unless memory limits a member
  for (const int64_t index : members_) {
    const int64_t ests = capacity(group(index), pace);
    if (ests == 0) continue;
    sorted = sorted && (all.empty() || all.back().ests >= ests);
    all.push_back({ests, group(index).count, index});
  }
  if (!sorted) std::ranges::stable_sort(all, std::greater(), &Capacity::ests);
}

std::vector<Capacity> Fleet::capacities(double pace) const {
  std::vector<Capacity> all;
  fill_capacities(pace, all);
  return all;
}

bool Fleet::holds(double pace, int64_t workers) const {
  fill_capacities(pace, scratch_);
  int64_t left = ests_;
  for (const Capacity& next : scratch_) {
    const int64_t devices = std::min(next.count, workers);
    workers -= devices;
    left -= std::min(left, devices * next.ests);
  }
  return workers == 0 && left == 0;
}

double Fleet::possible_pace_at_most(double pace) const {
  double possible = 0;
  for (const int64_t index : members_) {
    possible = std::max(possible, pace_of(group(index), capacity(group(index), pace)));
  }
  return possible;
}

double Fleet::possible_pace_below(double pace) const {
  double possible = 0;
  for (const int64_t index : members_) {
    const int64_t ests = capacity(group(index), pace);
    const bool equal = ests > 0 && pace_of(group(index), ests) >= pace;
    possible = std::max(possible, pace_of(group(index), ests - (equal ? 1 : 0)));
  }
  return possible;
}

double Fleet::shortest_pace(int64_t workers) const {
  double enough = pace_bound(workers), too_short = 0;
  if (!holds(enough, workers)) {
    too_short = enough;
    do enough *= 1.25;
    while (!holds(enough, workers));
  }
  // Bisects between possible paces until no pace is left between.
  for (;;) {
    enough = possible_pace_at_most(enough);
    const double below = possible_pace_below(enough);
    if (below <= too_short || !holds(below, workers)) return enough;
    const double middle = too_short + (below - too_short) / 2;
    if (holds(middle, workers)) {
      enough = middle;
    } else {
      enough = below;
      too_short = middle;
    }
  }
}

Load Fleet::load_of(const std::vector<WorkerShare>& workers) const { return plan::load_of(groups_, workers); }

double Fleet::least_work(double pace) const {
  double work = 0;
  auto left = static_cast<double>(ests_);
  for (const int64_t index : members_) {
    const double rate = group(index).mini_batches_per_second;
    const double each = std::min(pace * rate, static_cast<double>(group(index).most_ests));
    const double taken = std::min(left, each * static_cast<double>(group(index).count));
    work += taken / rate;
    left -= taken;
  }
  return work;
}

std::optional<double> Fleet::next_pace(double pace) const {
  std::optional<double> next;
  for (const int64_t index : members_) {
    const int64_t ests = capacity(group(index), pace);
    if (ests == group(index).most_ests) continue;
    const double possible = pace_of(group(index), ests + 1);
    if (!next || possible < *next) next = possible;
  }
  return next;
}

}  // namespace estrain::plan
