#include "core/planning/plan/search/greedy_split.h"

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
