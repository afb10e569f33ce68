#include "core/planning/profile/crowding.h"

#include <algorithm>
#include <map>

namespace estrain::profile {
namespace {

// {workers: mean factor over a single worker}, from measurements.
std::map<int64_t, double> measured_factors(const std::vector<const Capability*>& kinds) {
  std::map<int64_t, std::pair<double, int64_t>> sums;
  for (const Capability* kind : kinds) {
    const Estimate* alone = kind->mini_batch(1);
    if (alone == nullptr) continue;
    for (const MiniBatchSample& sample : kind->mini_batches) {
      auto& [sum, number] = sums[sample.workers];
      sum += sample.estimate.seconds / alone->seconds;
      ++number;
    }
  }
  std::map<int64_t, double> factors = {{1, 1.0}};
  for (const auto& [workers, sum] : sums) factors[workers] = sum.first / static_cast<double>(sum.second);
  return factors;
}

}  // namespace

double turns(int64_t workers, int64_t threads, int64_t cores) {
  return std::max(1.0, static_cast<double>(workers * threads) / static_cast<double>(std::max<int64_t>(1, cores)));
}

std::vector<double> crowding(const std::vector<const Capability*>& kinds, int64_t workers, int64_t threads,
                             int64_t cores) {
  const std::map<int64_t, double> factors = measured_factors(kinds);
  std::vector<double> all;
  for (int64_t w = 1; w <= workers; ++w) {
    const auto above = factors.lower_bound(w);
    if (above == factors.end()) {
      const auto& [last, factor] = *factors.rbegin();
      all.push_back(factor * turns(w, threads, cores) / turns(last, threads, cores));
    } else if (above->first == w) {
      all.push_back(above->second);
    } else {
      const auto below = std::prev(above);
      const double part = static_cast<double>(w - below->first) / static_cast<double>(above->first - below->first);
      all.push_back(below->second + part * (above->second - below->second));
    }
  }
  return all;
}

}  // namespace estrain::profile
