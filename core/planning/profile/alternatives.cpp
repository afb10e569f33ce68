#include "core/planning/profile/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/error.h"
#include "core/job/placement/assignment.h"

namespace estrain::profile {
namespace {

using plan::DeviceGroup;
using plan::PlannedJob;
using plan::WorkerShare;

constexpr int64_t kMostMixtures = 64;

// Returns all small numbers, then doublings, up to `count`.
std::vector<int64_t> numbers_up_to(int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t n = 1; n < count; n = n < 8 ? n + 1 : 2 * n) numbers.push_back(n);
  if (count > 0) numbers.push_back(count);
  return numbers;
}

class Collector {
 public:
  Collector(const PlannedJob& job, const std::vector<DeviceGroup>& groups) : job_(job), groups_(groups) {}

  Alternative& add(plan::Plan plan) {
    std::string devices = device_list(plan.workers, groups_);
    const auto known = std::ranges::find(found_, devices, &Alternative::devices);
    if (known != found_.end()) return *known;
    return found_.emplace_back(Alternative{std::move(plan), std::move(devices)});
  }

  // Adds the best plan for these numbers of devices of each group; adds nothing if the devices cannot host the job.
  void add_best(const std::vector<int64_t>& counts) {
    std::vector<DeviceGroup> some = groups_;
    for (size_t i = 0; i < some.size(); ++i) some[i].count = counts[i];
    try {
      add(plan::best_plan(job_, some));
    } catch (const Error& error) {
      if (error.fault() != Fault::infeasible) throw;
    }
  }

  // Adds an even plan, to show the user the value of more workers even if fewer are faster.
  void add_even(size_t group, int64_t workers) {
    if (has(group, workers)) return;
    std::vector<WorkerShare> shares;
    for (const EstRange& range : placement::even_ranges(job_.ests, workers))
      shares.push_back({static_cast<int64_t>(group), range.size()});
    if (shares.front().ests <= groups_[group].most_ests) add(plan::evaluate(job_, groups_, shares));
  }

  bool has(size_t group, int64_t workers) const {
    return std::ranges::any_of(found_, [&](const Alternative& one) {
      const auto& shares = one.plan.workers;
      return static_cast<int64_t>(shares.size()) == workers &&
             std::ranges::all_of(shares,
                                 [&](const WorkerShare& share) { return share.group == static_cast<int64_t>(group); });
    });
  }

  std::vector<Alternative> take() { return std::move(found_); }

 private:
  const PlannedJob& job_;
  const std::vector<DeviceGroup>& groups_;
  std::vector<Alternative> found_;
};

void add_single_kinds(Collector& collector, const PlannedJob& job, const std::vector<DeviceGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const int64_t number : numbers_up_to(std::min(groups[i].count, job.ests))) {
      std::vector<int64_t> counts(groups.size(), 0);
      counts[i] = number;
      collector.add_best(counts);
      collector.add_even(i, number);
    }
  }
}

// Returns whether several groups may work together even if kinds do not mix.
bool has_relatives(const std::vector<DeviceGroup>& groups) {
  std::set<std::string_view> families;
  return std::ranges::any_of(groups, [&](const DeviceGroup& group) { return !families.insert(group.family()).second; });
}

// Adds all combinations of numbers of devices of each group, if the combinations are few.
void add_mixtures(Collector& collector, const std::vector<DeviceGroup>& groups) {
  int64_t mixtures = 1;
  for (const DeviceGroup& group : groups) {
    if (group.count >= kMostMixtures) return;
    mixtures *= group.count + 1;
    if (mixtures > kMostMixtures) return;
  }
  for (int64_t mixture = 1; mixture < mixtures; ++mixture) {
    std::vector<int64_t> counts;
    int64_t rest = mixture;
    for (const DeviceGroup& group : groups) {
      counts.push_back(rest % (group.count + 1));
      rest /= group.count + 1;
    }
    collector.add_best(counts);
  }
}

void keep_first(std::vector<Alternative>& all, size_t most) {
  size_t kept = 0;
  std::erase_if(all, [&](const Alternative& one) {
    const bool keeps = kept < most || one.best || one.given;
    kept += keeps ? 1 : 0;
    return !keeps;
  });
}

}  // namespace

std::vector<Alternative> alternatives(const PlannedJob& job, const std::vector<DeviceGroup>& groups,
                                      const std::optional<std::vector<WorkerShare>>& given, size_t most) {
  Collector collector(job, groups);
  collector.add(plan::best_plan(job, groups)).best = true;
  if (given) collector.add(plan::evaluate(job, groups, *given)).given = true;
  add_single_kinds(collector, job, groups);
  if (!job.one_kind || has_relatives(groups)) add_mixtures(collector, groups);
  std::vector<Alternative> all = collector.take();
  std::ranges::stable_sort(all, {}, [](const Alternative& one) { return one.plan.step_seconds; });
  keep_first(all, most);
  return all;
}

std::string device_list(const std::vector<WorkerShare>& workers, const std::vector<DeviceGroup>& groups) {
  std::string list;
  for (size_t begin = 0, end; begin < workers.size(); begin = end) {
    for (end = begin; end < workers.size() && workers[end] == workers[begin];) ++end;
    list += fmt::format("{}{}={}", begin > 0 ? "," : "", groups[static_cast<size_t>(workers[begin].group)].kind,
                        workers[begin].ests);
    if (end - begin > 1) list += fmt::format("*{}", end - begin);
  }
  return list;
}

}  // namespace estrain::profile
