#include "kernels/portable/fused_multiply_add.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/kernels/bits.h"

using namespace estrain::kernels;
using namespace estrain::kernels::test;

namespace {

void check_against_fma(const test::Floats& a, const test::Floats& b, const test::Floats& c) {
  for (const Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    test::Floats out(a.size());
    portable::fused_multiply_add(out.data(), a.data(), b.data(), c.data(), a.size(), isa);
    for (size_t i = 0; i < a.size(); ++i) {
      const float expected = std::fma(a[i], b[i], c[i]);
      if (bits_but_nan(out[i]) == bits_but_nan(expected)) continue;
      CAPTURE(bits(a[i]));
      CAPTURE(bits(b[i]));
      CAPTURE(bits(c[i]));
      REQUIRE(bits_but_nan(out[i]) == bits_but_nan(expected));
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
  test::Floats a = normal_floats(n, 1, 7), b = normal_floats(n, 1, 8), c(n);
  // The sum lies close to the midpoint of two floats: c is about half an ulp of the product.
  for (size_t i = 0; i < n; ++i) {
    const float product = a[i] * b[i];
    const float half = (std::nextafter(product, INFINITY) - product) / 2;
    c[i] = i % 3 == 0 ? half : i % 3 == 1 ? std::nextafter(half, INFINITY) : half * 0x1p-30f;
    if (i % 2 == 0) std::swap(c[i], a[i]), b[i] = i % 4 == 0 ? 1.0f : 0x1.000002p0f;
  }
  check_against_fma(a, b, c);
}
