#pragma once
// The shortest step, found by exhaustive search over every split and every order of the devices. For small jobs; shares
// no code with the planner.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

// Counts the nodes of the reduction tree over [lo, hi) that lie in [begin, end) without a parent there, by definition.
inline int64_t covering_nodes(int64_t lo, int64_t hi, int64_t begin, int64_t end) {
  if (hi <= begin || end <= lo) return 0;
  if (begin <= lo && hi <= end) return 1;
  int64_t m = 1;
  while (2 * m < hi - lo) m *= 2;
  return covering_nodes(lo, lo + m, begin, end) + covering_nodes(lo + m, hi, begin, end);
}

class BruteForce {
 public:
  BruteForce(const PlannedJob& job, const std::vector<DeviceGroup>& groups) : job_(job), groups_(groups) {
    for (const DeviceGroup& group : groups) left_.push_back(group.count);
    from(0, 0, 0, 0, 0, -1);
  }
  // Infinity if the job has no plan.
  double step_seconds() const { return best_; }
  int64_t workers() const { return workers_; }  // the fewest with this step time, up to rounding
  int64_t plans() const { return plans_; }

 private:
  void from(int64_t begin, int64_t workers, int64_t sums, double slowest, double others, int64_t first_group) {
    if (begin == job_.ests) return finish(workers, sums, slowest, others);
    for (size_t i = 0; i < groups_.size(); ++i) {
      const DeviceGroup& group = groups_[i];
      if (left_[i] == 0) continue;
      if (job_.one_kind && first_group >= 0 && groups_[static_cast<size_t>(first_group)].kind != group.kind) continue;
      --left_[i];
      for (int64_t end = begin + 1; end <= job_.ests && end - begin <= group.most_ests; ++end) {
        const double own = static_cast<double>(end - begin) / group.mini_batches_per_second;
        from(end, workers + 1, sums + covering_nodes(0, job_.ests, begin, end), std::max(slowest, own),
             others + std::min(slowest, own), static_cast<int64_t>(i));
      }
      ++left_[i];
    }
  }
  void finish(int64_t workers, int64_t sums, double slowest, double others) {
    ++plans_;
    double more = 0;  // crowding
    if (!job_.crowding.empty()) {
      more = job_.crowding[static_cast<size_t>(std::min(workers, std::ssize(job_.crowding)) - 1)] - job_.crowding[0];
    }
    const double alone = job_.crowding.empty() ? 1 : job_.crowding[0];
    const auto w = static_cast<double>(workers);
    const ExchangeCost& x = job_.exchange;
    double compute = alone * slowest;
    if (more > 0) compute += more / (w - 1) * others;
    if (more < 0) compute = (alone + more) * slowest;
    const double step =
        compute + x.base + (w - 1) * x.per_worker + x.per_sum / w * static_cast<double>(sums - 1) + x.update / w;
    const bool equal = plans_ > 1 && std::abs(step - best_) <= 1e-12 * best_;
    if (!equal && step > best_) return;
    workers_ = equal ? std::min(workers_, workers) : workers;
    best_ = std::min(best_, step);
  }

  const PlannedJob& job_;
  const std::vector<DeviceGroup>& groups_;
  std::vector<int64_t> left_;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t workers_ = 0, plans_ = 0;
};

}  // namespace estrain::plan
