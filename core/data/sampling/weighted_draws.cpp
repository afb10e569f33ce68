#include "core/data/sampling/weighted_draws.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace estrain::data {
namespace {

double uniform(std::mt19937& twister) {
  const uint64_t high = twister();
  const uint64_t low = twister();
  constexpr uint64_t mask = (uint64_t{1} << 53) - 1;
  return std::ldexp(static_cast<double>(((high << 32) | low) & mask), -53);
}

}  // namespace

WeightedDraws::WeightedDraws(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sums_.push_back(sum += weight);
  for (double& part : sums_) part /= sum;
  if (!sums_.empty()) sums_.back() = 1;
}

std::vector<int64_t> WeightedDraws::draw(uint64_t seed) const {
  std::mt19937 twister(static_cast<uint32_t>(seed));
  std::vector<int64_t> draws(sums_.size());
  for (int64_t& drawn : draws) drawn = std::ranges::lower_bound(sums_, uniform(twister)) - sums_.begin();
  return draws;
}

std::vector<double> balancing_weights(const std::vector<int64_t>& labels) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t label : labels) ++counts[label];
  std::vector<double> weights;
  for (const int64_t label : labels) weights.push_back(1.0 / static_cast<double>(counts.at(label)));
  return weights;
}

}  // namespace estrain::data
