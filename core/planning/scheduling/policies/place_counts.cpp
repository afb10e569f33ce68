#include "core/planning/scheduling/policies/place_counts.h"

#include <algorithm>
#include <functional>

namespace estrain::scheduling {

std::vector<Placement> place_counts(const View& view, const std::vector<int64_t>& counts) {
  std::vector<Placement> placements(view.jobs.size());
  FreeDevices free(view.cluster);
  std::vector<size_t> moving;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    if (devices_of(view.jobs[i]->placement) != counts[i]) {
      moving.push_back(i);
      continue;
    }
    placements[i] = view.jobs[i]->placement;
    free.take(placements[i]);
  }
  std::ranges::stable_sort(moving, std::greater<>(), [&](size_t i) { return counts[i]; });
  for (const size_t i : moving) placements[i] = free.take_packed(0, counts[i], view.jobs[i]->placement);
  return placements;
}

}  // namespace estrain::scheduling
