#include "core/planning/plan/search/figure.h"

#include <algorithm>
#include <tuple>

namespace estrain::plan {

bool Figure::better_than(const Figure& other) const {
  if (step_seconds < other.step_seconds * (1 - kEqual)) return true;
  if (step_seconds > other.step_seconds * (1 + kEqual)) return false;
  return std::tie(workers, partial_sums) < std::tie(other.workers, other.partial_sums);
}

Figure figure_of(const PlannedJob& job, int64_t workers, Load load, int64_t partial_sums) {
  return {job.compute_seconds(workers, load) + job.exchange.seconds(workers, partial_sums), workers, partial_sums};
}

double pace_of(const DeviceGroup& group, int64_t ests) {
  return static_cast<double>(ests) / group.mini_batches_per_second;
}

Load load_of(const std::vector<DeviceGroup>& groups, const std::vector<WorkerShare>& workers) {
  Load load;
  std::vector<int64_t> ests(groups.size());
  for (const WorkerShare& share : workers) {
    const auto group = static_cast<size_t>(share.group);
    load.pace = std::max(load.pace, pace_of(groups[group], share.ests));
    ests[group] += share.ests;
  }
  for (size_t i = 0; i < groups.size(); ++i) load.work += pace_of(groups[i], ests[i]);
  return load;
}

}  // namespace estrain::plan
