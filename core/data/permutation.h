#pragma once
// The data order of PyTorch, without PyTorch.

#include <cstdint>
#include <vector>

namespace estrain::data {

// torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on the CPU: the same integers. Torch keeps only the
// low 32 bits of the seed for its Mersenne twister, so seeds that differ by 2^32 give the same order there and here.
std::vector<int64_t> randperm(int64_t n, uint64_t seed);

// From this size on torch draws 64 bits per element and builds the permutation inside out.
constexpr int64_t randperm_wide_from = 0xFFFFFFFF / 20;

}  // namespace estrain::data
