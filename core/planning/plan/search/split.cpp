#include "core/planning/plan/search/split.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "core/planning/plan/partial_sums.h"

namespace estrain::plan {
namespace {

using Runs = std::vector<Capacity>;  // runs of devices with equal capacity

Runs roomiest(int64_t workers, const Runs& capacities) {
  Runs runs;
  for (Capacity next : capacities) {
    next.count = std::min(next.count, workers);
    workers -= next.count;
    if (next.count > 0) runs.push_back(next);
  }
  return runs;
}

// Spends the spare room on the first cuts with a profit, or equally on all cuts.
enum class Spending { at_once, in_parts };

// Calls take(group, begin, end) for each worker; stops when a call returns false.
template <typename Take>
void cut(int64_t ests, const Runs& runs, Spending spending, Take&& take) {
  int64_t room = 0, left = 0;  // of the devices without a range
  for (const Capacity& run : runs) {
    room += run.ests * run.count;
    left += run.count;
  }
  int64_t begin = 0;
  for (const Capacity& run : runs) {
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t spare = begin + room - ests;
      const int64_t may_spend = spending == Spending::at_once ? spare : (spare + left - 1) / left;
      room -= run.ests;
      --left;
      const int64_t last = std::min(begin + run.ests, ests - left);
      const int64_t first = std::max({begin + 1, ests - room, last - may_spend});
      const int64_t end = left == 0 ? ests : most_aligned(first, last);
      if (!take(run.group, begin, end)) return;
      begin = end;
    }
  }
}

struct Way {
  std::vector<Capacity> runs;
  Spending spending = Spending::at_once;
};

// Returns the partial sums of a way of cutting; stops counting at `enough`.
int64_t count_sums(int64_t ests, const Way& way, int64_t enough) {
  int64_t sums = 0;
  cut(ests, way.runs, way.spending, [&](int64_t, int64_t begin, int64_t end) {
    sums += partial_sums(ests, begin, end);
    return sums < enough;
  });
  return sums;
}

int trailing_zeros(const Capacity& run) { return std::countr_zero(static_cast<uint64_t>(run.ests)); }

// Returns three orders: largest first; sizes divisible by large powers of two first, which keeps later cuts aligned;
// smallest first.
std::vector<Runs> orders(const Runs& largest_first) {
  std::vector<Runs> all{largest_first};
  if (largest_first.size() == 1) return all;
  all.push_back(largest_first);
  std::ranges::stable_sort(all.back(), std::greater(), trailing_zeros);
  all.push_back(largest_first);
  std::ranges::reverse(all.back());
  return all;
}

Way best_way(int64_t ests, int64_t workers, const Runs& capacities) {
  Way best;
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (Runs& order : orders(roomiest(workers, capacities))) {
    for (const Spending spending : {Spending::at_once, Spending::in_parts}) {
      const Way way{order, spending};
      const int64_t sums = count_sums(ests, way, fewest);
      if (sums >= fewest) continue;
      fewest = sums;
      best = way;
      if (fewest == workers) return best;
    }
  }
  return best;
}

}  // namespace

bool ExactSplit::run(const std::vector<Capacity>& capacities, Bounds limits, int64_t& budget) {
  limits_ = limits;
  cells_.clear();
  if (!lay_out(capacities)) return false;
  work_ = states_ * (ests_ + static_cast<int64_t>(classes_.size()));
  if (work_ > budget) return false;
  number_states();
  cells_.assign(static_cast<size_t>((ests_ + 1) * states_), Cell{});
  cell(0, 0).excess = 0;
  for (int64_t position = 0; position < ests_; ++position) {
    extend(position);
    if (work_ > budget) {
      cells_.clear();
      budget = 0;
      return false;
    }
  }
  budget -= work_;
  return true;
}

// Only the roomiest devices can be needed, as many as workers.
bool ExactSplit::lay_out(const std::vector<Capacity>& capacities) {
  classes_.clear();
  int64_t left = limits_.workers;
  for (const Capacity& next : capacities) {
    const int64_t taken = std::min(next.count, left);
    if (taken == 0) break;
    if (classes_.empty() || classes_.back().ests != next.ests) classes_.push_back({next.ests, 0, 0, {}});
    classes_.back().count += taken;
    classes_.back().groups.push_back({next.ests, taken, next.group});
    left -= taken;
  }
  std::ranges::reverse(classes_);
  states_ = 1;
  for (Class& each : classes_) {
    each.stride = states_;
    states_ *= each.count + 1;
    if (states_ > kMostCells / (ests_ + 1)) return false;
  }
  return ests_ < kNone;
}

int64_t ExactSplit::used(int64_t state, size_t in_class) const {
  return state / classes_[in_class].stride % (classes_[in_class].count + 1);
}

void ExactSplit::number_states() {
  workers_of_.assign(static_cast<size_t>(states_), 0);
  room_left_.assign(static_cast<size_t>(states_), 0);
  taken_from_.assign(static_cast<size_t>(states_) * classes_.size(), -1);
  for (int64_t state = 0; state < states_; ++state) {
    int64_t after = -1;
    for (size_t i = classes_.size(); i-- > 0;) {
      const int64_t unused = classes_[i].count - used(state, i);
      if (unused > 0) after = state + classes_[i].stride;
      workers_of_[static_cast<size_t>(state)] += used(state, i);
      room_left_[static_cast<size_t>(state)] += unused * classes_[i].ests;
      taken_from_[static_cast<size_t>(state) * classes_.size() + i] = after;
    }
  }
}

void ExactSplit::list_ranges(int64_t position) {
  ranges_.clear();
  const int64_t longest = std::min(classes_.back().ests, ests_ - position);
  size_t smallest = 0;
  for (int64_t length = 1; length <= longest; ++length) {
    if (length > classes_[smallest].ests) ++smallest;
    const int64_t excess = partial_sums(ests_, position, position + length) - 1;
    if (excess <= limits_.excess) ranges_.push_back({length, excess, smallest});
  }
  work_ += longest;
}

void ExactSplit::extend(int64_t position) {
  bool listed = false;
  for (int64_t state = 0; state < states_; ++state) {
    const Cell& from = cell(position, state);
    if (from.excess == kNone || workers_of_[static_cast<size_t>(state)] == limits_.workers) continue;
    if (!listed) list_ranges(position);
    listed = true;
    work_ += std::ssize(ranges_);
    const int64_t* after = &taken_from_[static_cast<size_t>(state) * classes_.size()];
    for (const EstSpan& range : ranges_) {
      const int64_t excess = from.excess + range.excess, next = after[range.smallest_class];
      const int64_t end = position + range.length;
      if (next < 0 || excess > limits_.excess || room_left_[static_cast<size_t>(next)] < ests_ - end) continue;
      Cell& to = cell(end, next);
      if (excess >= to.excess) continue;
      to = {static_cast<uint16_t>(excess), static_cast<uint16_t>(range.length), static_cast<uint32_t>(state)};
    }
  }
}

int64_t ExactSplit::best_state(int64_t workers) const {
  int64_t best = -1;
  for (int64_t state = 0; state < states_ && !cells_.empty(); ++state) {
    if (workers_of_[static_cast<size_t>(state)] != workers || cell(ests_, state).excess == kNone) continue;
    if (best < 0 || cell(ests_, state).excess < cell(ests_, best).excess) best = state;
  }
  return best;
}

int64_t ExactSplit::excess(int64_t workers) const {
  const int64_t state = best_state(workers);
  return state < 0 ? -1 : cell(ests_, state).excess;
}

std::vector<WorkerShare> ExactSplit::split(int64_t workers) const {
  std::vector<WorkerShare> shares;
  std::vector<Class> left = classes_;
  int64_t state = best_state(workers);
  for (int64_t position = ests_; position > 0;) {
    const Cell& last = cell(position, state);
    size_t from = 0;
    while (left[from].stride != state - last.state) ++from;
    std::vector<Capacity>& groups = left[from].groups;
    shares.push_back({groups.front().group, last.length});
    if (--groups.front().count == 0) groups.erase(groups.begin());
    position -= last.length;
    state = last.state;
  }
  std::ranges::reverse(shares);
  return shares;
}

std::vector<WorkerShare> greedy_split(int64_t ests, int64_t workers, const std::vector<Capacity>& capacities) {
  const Way way = best_way(ests, workers, capacities);
  std::vector<WorkerShare> split;
  split.reserve(static_cast<size_t>(workers));
  cut(ests, way.runs, way.spending, [&](int64_t group, int64_t begin, int64_t end) {
    split.push_back({group, end - begin});
    return true;
  });
  return split;
}

}  // namespace estrain::plan
