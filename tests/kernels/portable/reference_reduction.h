#pragma once
// The order of summation of reduction.h, element by element.

#include <cmath>
#include <cstdint>

namespace estrain::kernels::test {

// step(accumulator, i) adds term i. inner == 1: 32 lanes in blocks of 4096.
template <typename Step>
float lane_sum(int64_t n, Step step) {
  float total = 0;
  for (int64_t block = 0; block == 0 || block < n; block += 4096) {
    float lanes[32] = {};
    for (int64_t i = block; i < n && i < block + 4096; ++i) lanes[i % 32] = step(lanes[i % 32], i);
    for (int half : {16, 8, 4, 2, 1}) {
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    total = block == 0 ? lanes[0] : total + lanes[0];
  }
  return total;
}

// inner > 1: chains in blocks of 256.
template <typename Step>
float chain_sum(int64_t n, Step step) {
  float total = 0;
  for (int64_t block = 0; block == 0 || block < n; block += 256) {
    float sum = 0;
    for (int64_t i = block; i < n && i < block + 256; ++i) sum = step(sum, i);
    total = block == 0 ? sum : total + sum;
  }
  return total;
}

template <typename Step>
float ordered_sum(int64_t inner, int64_t n, Step step) {
  return inner == 1 ? lane_sum(n, step) : chain_sum(n, step);
}

}  // namespace estrain::kernels::test
