#include "kernels/sum.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/kernels/bits.h"

using namespace estrain::kernels;
using test::Floats;

namespace {

// Tails of every length, and pieces that start 16 or 3 floats after an aligned address.
template <typename Check>
void for_shapes(Check check) {
  for (Isa isa : test::isas()) {
    CAPTURE(isa_name(isa));
    for (size_t n = 0; n <= 64; ++n) check(n, 0, isa);
    for (size_t n : {257, 1000, 4099}) {
      for (size_t shift : {0, 3, 16}) check(n, shift, isa);
    }
  }
}

// An array whose last element is a guard that no kernel may touch.
Floats guarded(size_t n, size_t shift) {
  Floats out(n + 1, shift);
  out[n] = 12345.0f;
  return out;
}

#define REQUIRE_ELEMENTS(actual, n, expected_of_i)                                                                \
  for (size_t i = 0; i < (n); ++i) REQUIRE(test::bits_but_nan((actual)[i]) == test::bits_but_nan(expected_of_i)); \
  REQUIRE((actual)[n] == 12345.0f)

}  // namespace

TEST_CASE("scale of a large array, which goes past the caches, rounds the same") {
  const size_t n = (1u << 18) + 37;
  for (size_t shift : {size_t{0}, size_t{3}, size_t{16}}) {
    const Floats a = test::wild_floats(n, 1, shift);
    for (Isa isa : test::isas()) {
      Floats out = guarded(n, shift);
      scale(out.data(), a.data(), 0.3f, n, isa);
      REQUIRE_ELEMENTS(out, n, a[i] * 0.3f);
    }
  }
}

TEST_CASE("scale and add round once per operation, on floats of every kind") {
  for_shapes([](size_t n, size_t shift, Isa isa) {
    const Floats a = test::wild_floats(n, 1, shift), b = test::wild_floats(n, 2, shift);
    Floats out = guarded(n, shift);
    for (float factor : {0.125f, 1.0f / 3, 1e-38f}) {
      scale(out.data(), a.data(), factor, n, isa);
      REQUIRE_ELEMENTS(out, n, a[i] * factor);
    }
    add(out.data(), a.data(), b.data(), n, isa);
    REQUIRE_ELEMENTS(out, n, a[i] + b[i]);
  });
}

TEST_CASE("add_scaled equals scale, then add: nothing is fused") {
  for_shapes([](size_t n, size_t shift, Isa isa) {
    const Floats a = test::normal_floats(n, 1, 3, shift), g = test::normal_floats(n, 1, 4, shift);
    const float factor = 1.0f / 3;
    Floats out = guarded(n, shift), scaled(n), expected(n);
    add_scaled(out.data(), a.data(), g.data(), factor, n, isa);
    scale(scaled.data(), g.data(), factor, n, isa);
    add(expected.data(), a.data(), scaled.data(), n, isa);
    REQUIRE_ELEMENTS(out, n, expected[i]);
  });
}

TEST_CASE("fold_scaled adds the innermost operand first") {
  for_shapes([](size_t n, size_t shift, Isa isa) {
    std::vector<Floats> arrays;
    for (uint32_t k = 0; k < 5; ++k) arrays.push_back(test::normal_floats(n, 1, 10 + k, shift));
    const Floats g = test::wild_floats(n, 20, shift);
    for (size_t count = 0; count <= arrays.size(); ++count) {
      const float* operands[5];
      Floats expected(n), out = guarded(n, shift);
      scale(expected.data(), g.data(), 0.2f, n, isa);
      for (size_t k = count; k-- > 0;) add(expected.data(), arrays[k].data(), expected.data(), n, isa);
      for (size_t k = 0; k < count; ++k) operands[k] = arrays[k].data();
      fold_scaled(out.data(), operands, count, g.data(), 0.2f, n, isa);
      REQUIRE_ELEMENTS(out, n, expected[i]);
    }
  });
}

TEST_CASE("add_zero turns -0 into +0 and keeps all else, denormals too") {
  for_shapes([](size_t n, size_t shift, Isa isa) {
    const Floats a = test::wild_floats(n, 5, shift);
    Floats out = guarded(n, shift);
    add_zero(out.data(), a.data(), n, isa);
    REQUIRE_ELEMENTS(out, n, a[i] == 0 ? 0.0f : a[i]);
  });
}

TEST_CASE("the destination may be any of the inputs") {
  for (Isa isa : test::isas()) {
    const size_t n = 1001;
    const Floats a = test::normal_floats(n, 1, 6), b = test::normal_floats(n, 1, 7);
    Floats expected(n), out = a;
    add(expected.data(), a.data(), b.data(), n, isa);
    add(out.data(), out.data(), b.data(), n, isa);
    CHECK(test::first_difference(out, expected) == n);
    out = b;
    add(out.data(), a.data(), out.data(), n, isa);
    CHECK(test::first_difference(out, expected) == n);

    const float* operands[] = {a.data(), b.data()};
    fold_scaled(expected.data(), operands, 2, b.data(), 0.3f, n, isa);
    out = b;
    const float* in_place[] = {a.data(), out.data()};
    fold_scaled(out.data(), in_place, 2, out.data(), 0.3f, n, isa);
    CHECK(test::first_difference(out, expected) == n);
  }
}
