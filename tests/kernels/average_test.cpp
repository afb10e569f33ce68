#include "kernels/average.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/bits.h"

using namespace estrain::kernels;
using test::Floats;

namespace {

// torch's lerp_, one number at a time.
float lerp(float average, float value, float weight, bool fused) {
  const bool near_start = std::abs(weight) < 0.5f;
  const float factor = near_start ? weight : weight - 1, from = near_start ? average : value;
  const float difference = value - average;
  if (fused) return std::fma(factor, difference, from);
  volatile float product = factor * difference;  // rounded by itself
  return product + from;
}

void check(Isa isa, bool portable, bool fused) {
  for (const double weight : {0.1, 0.001, 0.5, 0.75}) {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{64}, size_t{1001}}) {
      const Floats average = test::normal_floats(n, 1, 3), value = test::normal_floats(n, 1, 4);
      Floats expected(n), found(n);
      for (size_t i = 0; i < n; ++i) expected[i] = lerp(average[i], value[i], static_cast<float>(weight), fused);
      estrain::kernels::average(found.data(), average.data(), value.data(), n, {weight, isa, portable});
      CHECK(test::first_difference(found, expected) == n);
      Floats in_place = average;
      estrain::kernels::average(in_place.data(), in_place.data(), value.data(), n, {weight, isa, portable});
      CHECK(test::first_difference(in_place, expected) == n);
    }
  }
}

TEST_CASE("an average is torch's lerp_: fused where ATen's is, and everywhere where it is to be portable") {
  check(Isa::baseline, false, false);
  check(Isa::baseline, true, true);
  for (const Isa isa : {Isa::fma128, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    check(isa, false, true);
    check(isa, true, true);
  }
}

}  // namespace
