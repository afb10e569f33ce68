#pragma once
// The 32-lane rule, block by block.

#include <array>
#include <cmath>
#include <cstddef>

namespace estrain::kernels::test {

struct ReferenceLanes {
  std::array<float, 32> lane{};

  void add(size_t position, float x) { lane[position % 32] += x; }
  void add_product(size_t position, float a, float b) { lane[position % 32] = std::fma(a, b, lane[position % 32]); }
  float combined() const {
    std::array<float, 32> sum = lane;
    for (const size_t half : {16, 8, 4, 2, 1}) {
      for (size_t l = 0; l < half; ++l) sum[l] += sum[l + half];
    }
    return sum[0];
  }
};

// The sum of blocks: the first block is the first total.
struct ReferenceTotal {
  float total = 0;
  bool any = false;

  void add(float block) {
    total = any ? total + block : block;
    any = true;
  }
};

}  // namespace estrain::kernels::test
