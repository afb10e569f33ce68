#pragma once
// WeightedDraws draws samples with replacement, each with a probability in proportion to its weight: the numbers of
// torch.utils.data.WeightedRandomSampler(weights, n, generator=torch.Generator().manual_seed(seed)), which are those of
// torch.multinomial on the CPU:
//
//   sums[i]  = (w[0] + ... + w[i]) / (w[0] + ... + w[n-1]), added in this order in float64; the last one is 1
//   draw     = the first i with sums[i] >= u, where u = (a * 2^32 + b) mod 2^53 / 2^53 for the next two numbers a, b of
//              the Mersenne twister mt19937 with the low 32 bits of the seed
//
// torch refuses more than 2^24 weights; WeightedDraws takes any number of weights.

#include <cstdint>
#include <vector>

namespace estrain::data {

// Immutable, hence thread-safe.
class WeightedDraws {
 public:
  // `weights`: finite and not negative, with a sum above 0 (reading/sample_weights.h).
  explicit WeightedDraws(const std::vector<double>& weights);

  // As many draws as there are weights.
  std::vector<int64_t> draw(uint64_t seed) const;

 private:
  std::vector<double> sums_;
};

// 1 / count of the sample's class, for each sample: every class is drawn equally often.
std::vector<double> balancing_weights(const std::vector<int64_t>& labels);

}  // namespace estrain::data
