#include "core/data/sampling/permutation.h"

#include <numeric>
#include <random>
#include <utility>

namespace estrain::data {
namespace {

std::vector<int64_t> narrow(int64_t n, std::mt19937& twister) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = 0; i + 1 < n; ++i) {
    // n - i fits into 32 bits here, and a 32-bit division is several times as fast.
    const int64_t z = static_cast<uint32_t>(twister()) % static_cast<uint32_t>(n - i);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + z)]);
  }
  return order;
}

std::vector<int64_t> wide(int64_t n, std::mt19937& twister) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t high = twister();
    const uint64_t low = twister();
    const size_t z = ((high << 32) | low) % static_cast<uint64_t>(i + 1);
    order[static_cast<size_t>(i)] = order[z];
    order[z] = i;
  }
  return order;
}

}  // namespace

std::vector<int64_t> randperm(int64_t n, uint64_t seed) {
  std::mt19937 twister(static_cast<uint32_t>(seed));
  return n < randperm_wide_from ? narrow(n, twister) : wide(n, twister);
}

}  // namespace estrain::data
