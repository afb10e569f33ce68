#include "core/planning/plan/search/mix_search.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace estrain::plan {

MixSearch::MixSearch(const Job& job, const Fleet& fleet) : job_(job), fleet_(fleet), exact_(job.ests) {
  devices_from_.assign(fleet.members().size() + 1, 0);
  for (size_t i = fleet.members().size(); i-- > 0;) devices_from_[i] = devices_from_[i + 1] + group(i).count;
}

const DeviceGroup& MixSearch::group(size_t index) const { return fleet_.group(fleet_.members()[index]); }

bool MixSearch::run(Figure& best, std::vector<Share>& split, int64_t& budget) {
  best_ = best;
  split_.clear();
  budget_ = budget;
  complete_ = true;
  visit({0, group(0).count, group(0).most_ests}, job_.ests, 0, {});
  budget = std::max<int64_t>(0, budget_);
  if (!split_.empty()) {
    best = best_;
    split = std::move(split_);
  }
  return complete_;
}

// `ests` are left to assign; `workers` already have ESTs, with total `load`.
void MixSearch::visit(Position at, int64_t ests, int64_t workers, Load load) {
  if (ests == 0) return order_ranges(workers, load);
  if (at.left == 0) {
    if (++at.group == fleet_.members().size()) return;
    at.left = group(at.group).count;
    at.most = group(at.group).most_ests;
  }
  const int64_t most_workers = std::min(fleet_.most_workers(), workers + at.left + devices_from_[at.group + 1]);
  budget_ -= 1 + most_workers - workers;
  if (budget_ < 0) complete_ = false;
  if (!complete_ || !may_be_better(at.group, ests, workers, most_workers, load)) return;
  for (int64_t own = std::min(at.most, ests); own > 0; --own) {
    const double seconds = pace_of(group(at.group), own);
    chosen_.push_back({fleet_.members()[at.group], own});
    visit({at.group, at.left - 1, own}, ests - own, workers + 1, {std::max(load.pace, seconds), load.work + seconds});
    chosen_.pop_back();
  }
  visit({at.group, 0, 0}, ests, workers, load);
}

// Computes a lower bound: the remaining ESTs take at least as long as on the fastest remaining device, and every worker
// passes on at least one partial sum.
bool MixSearch::may_be_better(size_t next, int64_t ests, int64_t workers, int64_t most_workers, Load load) const {
  const auto left = static_cast<double>(ests);
  load.work += pace_of(group(next), ests);
  // If workers slow each other down more than taking turns would, a longer pace can give a shorter step.
  const double longest = std::max(load.pace, left / fleet_.slowest());
  for (int64_t w = workers + 1; w <= std::min(most_workers, workers + ests); ++w) {
    const double pace = job_.compute_seconds(w, {1, 0}) < 0 ? longest : load.pace;
    if (figure_of(job_, w, {pace, load.work}, w).better_than(best_)) return true;
  }
  return false;
}

void MixSearch::order_ranges(int64_t workers, Load load) {
  if (!figure_of(job_, workers, load, workers).better_than(best_)) return;
  std::map<std::pair<int64_t, int64_t>, int64_t, std::greater<>> devices;  // {ESTs, group}: number of devices
  for (const Share& share : chosen_) ++devices[{share.ests, share.group}];
  std::vector<Capacity> sizes;
  for (const auto& [size, count] : devices) sizes.push_back({size.first, count, size.second});
  int64_t excess = 0;
  while (figure_of(job_, workers, load, workers + excess + 1).better_than(best_) && workers + excess < job_.ests)
    ++excess;
  if (!exact_.run(sizes, {workers, excess}, budget_)) {
    complete_ = false;
    return;
  }
  if (exact_.excess(workers) < 0) return;
  best_ = figure_of(job_, workers, load, workers + exact_.excess(workers));
  split_ = exact_.split(workers);
}

}  // namespace estrain::plan
