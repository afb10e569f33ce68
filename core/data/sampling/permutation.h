#pragma once
// PyTorch's order of samples, without PyTorch.

#include <cstdint>
#include <vector>

namespace estrain::data {

// The same integers as torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on the CPU. Torch's Mersenne
// twister uses only the low 32 bits of the seed, so seeds that differ by 2^32 give the same order, in torch and here.
std::vector<int64_t> randperm(int64_t n, uint64_t seed);

// From this size on torch draws 64 bits per element and builds the permutation inside out.
constexpr int64_t randperm_wide_from = 0xFFFFFFFF / 20;

}  // namespace estrain::data
