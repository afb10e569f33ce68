#include "core/planning/plan/changes/offer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/planning/plan/search/feasibility.h"

namespace estrain::plan {
namespace {

bool alike(const DeviceGroup& a, const DeviceGroup& b) {
  return a.kind == b.kind && a.mini_batches_per_second == b.mini_batches_per_second && a.most_ests == b.most_ests;
}

void check_groups_or_none(std::vector<DeviceGroup> free) {
  if (free.empty()) return;
  for (DeviceGroup& group : free) group.count += group.count == 0 ? 1 : 0;  // an empty offer is allowed
  check_groups(free);
}

}  // namespace

double rounded(double value) { return std::round(value / kRounding) * kRounding; }

void keep_best(std::vector<Proposal>& proposals, int64_t k) {
  if (std::ssize(proposals) > k) proposals.resize(static_cast<size_t>(std::max<int64_t>(k, 0)));
}

int64_t sum(const Counts& counts) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  return total;
}

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
  for (const WorkerShare& share : plan.workers) ++used[static_cast<size_t>(share.group)];
  return used;
}

std::vector<DeviceGroup> with_counts(std::vector<DeviceGroup> groups, const Counts& counts) {
  for (size_t i = 0; i < groups.size(); ++i) groups[i].count = counts[i];
  return groups;
}

Offer::Offer(const PlannedJob& job, const std::vector<DeviceGroup>& held, const std::vector<DeviceGroup>& free)
    : job_(job), before_(best_plan(job, held)), groups_(held), free_(held.size()) {
  check_groups_or_none(free);
  for (const DeviceGroup& group : held) held_.push_back(group.count);
  for (const DeviceGroup& group : free) add(group);
}

Proposal Offer::adding(const Counts& added) const {
  Counts counts = held_;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += added[i];
  Plan plan = best_plan(job_, with_counts(groups_, counts));
  const Counts used = used_by(plan, counts.size());
  Counts change(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) change[i] = std::max<int64_t>(0, used[i] - held_[i]);
  return proposal(std::move(change), std::move(plan));
}

Proposal Offer::proposal(Counts change, Plan plan) const {
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

void Offer::add(const DeviceGroup& group) {
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

}  // namespace estrain::plan
