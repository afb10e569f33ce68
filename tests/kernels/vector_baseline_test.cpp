// The portable kernels rely on a fused multiply-add, also on processors without the instruction.
#include "kernels/vector_baseline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/kernels/bits.h"

using namespace estrain::kernels;
using namespace estrain::kernels::test;

namespace {

void check_against_fma(const test::Floats& a, const test::Floats& b, const test::Floats& c) {
  for (size_t i = 0; i < a.size(); i += baseline::width) {
    const size_t n = std::min(baseline::width, a.size() - i);
    float out[baseline::width];
    baseline::store(out, baseline::fused(baseline::load(a.data() + i, n), baseline::load(b.data() + i, n),
                                         baseline::load(c.data() + i, n)));
    for (size_t lane = 0; lane < n; ++lane) {
      const float expected = std::fma(a[i + lane], b[i + lane], c[i + lane]);
      if (bits_but_nan(out[lane]) == bits_but_nan(expected)) continue;
      CAPTURE(bits(a[i + lane]));
      CAPTURE(bits(b[i + lane]));
      CAPTURE(bits(c[i + lane]));
      REQUIRE(bits_but_nan(out[lane]) == bits_but_nan(expected));
    }
  }
}

}  // namespace

TEST_CASE("a fused multiply-add rounds once, for any bits") {
  constexpr size_t n = 200'003;
  check_against_fma(wild_floats(n, 1), wild_floats(n, 2), wild_floats(n, 3));
  check_against_fma(normal_floats(n, 1, 4, 1), normal_floats(n, 1, 5), normal_floats(n, 1, 6));
}

TEST_CASE("a fused multiply-add rounds once where two roundings would not do") {
  constexpr size_t n = 100'000;
  test::Floats a(n), b(n), c(n);
  std::mt19937 random(7);
  // The product, of 25 bits or more, is often the midpoint of two floats. The sum lies so close to the product that
  // a double cannot tell them apart.
  for (size_t i = 0; i < n; ++i) {
    a[i] = static_cast<float>((1u << 12) + random() % (1u << 12)) * (random() % 2 == 0 ? 1.0f : -1.0f);
    b[i] = static_cast<float>((1u << 12) + random() % (1u << 12));
    c[i] = random() % 2 == 0 ? 0x1p-60f : -0x1p-60f;
  }
  check_against_fma(a, b, c);
}
