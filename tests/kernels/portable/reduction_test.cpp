#include "kernels/portable/reduction.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_reduction.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using test::Floats;

namespace {

size_t num_outputs(const Reduced& shape) { return static_cast<size_t>(shape.outer * shape.inner); }
size_t num_inputs(const Reduced& shape) { return static_cast<size_t>(shape.outer * shape.reduced * shape.inner); }

// Reduces each output separately: value(at), with at(i) the element of reduced index i.
template <typename Value>
Floats for_outputs(const Floats& x, const Reduced& shape, Value value) {
  Floats out(num_outputs(shape));
  for (size_t o = 0; o < out.size(); ++o) {
    const int64_t outer = static_cast<int64_t>(o) / shape.inner, inner = static_cast<int64_t>(o) % shape.inner;
    out[o] =
        value([&](int64_t i) { return x[static_cast<size_t>((outer * shape.reduced + i) * shape.inner + inner)]; });
  }
  return out;
}

template <typename At>
float reference_sum(const Reduced& shape, At at) {
  return test::ordered_sum(shape.inner, shape.reduced, [&](float sum, int64_t i) { return sum + at(i); });
}
template <typename At>
float reference_squares(const Reduced& shape, At at) {
  return test::ordered_sum(shape.inner, shape.reduced,
                           [&](float sum, int64_t i) { return std::fma(at(i), at(i), sum); });
}
template <typename At>
float reference_variance(const Reduced& shape, float correction, At at) {
  const float count = static_cast<float>(shape.reduced), mean = reference_sum(shape, at) / count;
  const auto deviation = [&](int64_t i) { return at(i) - mean; };
  const float s = reference_sum(shape, deviation), q = reference_squares(shape, deviation) - s * s / count;
  return count - correction > 0 ? (q < 0 ? 0 : q) / (count - correction) : std::nanf("");
}

void check_equal(const Floats& actual, const Floats& expected) {
  REQUIRE(test::first_difference(actual, expected) == expected.size());
}

void check(const Reduced& shape, const Floats& x, const Execution& execution) {
  CAPTURE(isa_name(execution.isa));
  CAPTURE(shape.outer);
  CAPTURE(shape.reduced);
  CAPTURE(shape.inner);
  CAPTURE(execution.threads);
  const float count = static_cast<float>(shape.reduced);
  Floats out(num_outputs(shape), 1), means(num_outputs(shape));
  sum(out.data(), x.data(), shape, execution);
  check_equal(out, for_outputs(x, shape, [&](auto at) { return reference_sum(shape, at); }));
  mean(out.data(), x.data(), shape, execution);
  check_equal(out, for_outputs(x, shape, [&](auto at) { return reference_sum(shape, at) / count; }));
  sum_of_squares(out.data(), x.data(), shape, execution);
  check_equal(out, for_outputs(x, shape, [&](auto at) { return reference_squares(shape, at); }));
  l2_norm(out.data(), x.data(), shape, execution);
  check_equal(out, for_outputs(x, shape, [&](auto at) { return std::sqrt(reference_squares(shape, at)); }));
  for (float correction : {0.0f, 1.0f}) {
    variance(out.data(), means.data(), x.data(), shape, {.correction = correction}, execution);
    check_equal(out, for_outputs(x, shape, [&](auto at) { return reference_variance(shape, correction, at); }));
    check_equal(means, for_outputs(x, shape, [&](auto at) { return reference_sum(shape, at) / count; }));
  }
}

int64_t below(std::mt19937& engine, int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); }

}  // namespace

TEST_CASE("Reductions of any shape follow their order on every instruction set") {
  std::mt19937 engine(1);
  std::vector<Reduced> shapes = {{1, 0, 1},    {3, 0, 5},    {0, 7, 1},     {2, 7, 0},    {1, 1, 1},    {1, 4096, 1},
                                 {1, 4097, 1}, {2, 8192, 1}, {1, 20011, 1}, {5, 4128, 1}, {9, 32, 1},   {7, 64, 1},
                                 {1, 256, 3},  {1, 257, 17}, {2, 1024, 5},  {1, 2311, 2}, {1, 5, 1001}, {3, 1300, 130},
                                 {1, 1, 64},   {64, 49, 1},  {2, 10, 3}};
  for (int i = 0; i < 200; ++i) {
    shapes.push_back({1 + below(engine, 6), below(engine, i % 4 == 0 ? 3000 : 100),
                      i % 2 == 0 ? 1 : 1 + below(engine, i % 3 == 0 ? 300 : 40)});
  }
  uint32_t seed = 0;
  for (const Reduced& shape : shapes) {
    const Floats x = seed % 5 == 0 ? test::wild_floats(num_inputs(shape), seed, seed % 3)
                                   : test::normal_floats(num_inputs(shape), 2, seed, seed % 3);
    ++seed;
    for (Isa isa : test::isas()) {
      if (seed % 3 == 0 || isa != Isa::fma128) check(shape, x, {.isa = isa});
    }
  }
}

TEST_CASE("Reductions give the same bits on threads") {
  for (const Reduced& shape : {Reduced{1, 300'007, 1}, {40, 5000, 1}, {1000, 100, 1}, {1, 3001, 100}, {9, 300, 70}}) {
    const Floats x = test::normal_floats(num_inputs(shape), 1, 4);
    for (int threads : {2, 3}) check(shape, x, test::execution_on(best_isa(), threads));
  }
}

TEST_CASE("Reductions are as exact as their order allows") {
  const Reduced shape = {1, 1'000'003, 1};
  const Floats x = test::normal_floats(num_inputs(shape), 1, 9);
  double exact_sum = 0, magnitude = 0, exact_squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    exact_sum += x[i];
    magnitude += std::fabs(x[i]);
    exact_squares += static_cast<double>(x[i]) * x[i];
  }
  float out = 0;
  sum(&out, x.data(), shape, {});
  CHECK(std::fabs(out - exact_sum) < 1e-6 * magnitude);
  CHECK(l2_norm(x.data(), shape.reduced, {}) == doctest::Approx(std::sqrt(exact_squares)).epsilon(1e-6));
  // A mean far from 0 does not degrade the variance.
  Floats far = x;
  for (size_t i = 0; i < far.size(); ++i) far[i] += 100;
  double mean = 0, square = 0;
  for (size_t i = 0; i < far.size(); ++i) mean += far[i] / static_cast<double>(far.size());
  for (size_t i = 0; i < far.size(); ++i) square += (far[i] - mean) * (far[i] - mean);
  variance(&out, nullptr, far.data(), shape, {}, {});
  CHECK(out == doctest::Approx(square / (static_cast<double>(far.size()) - 1)).epsilon(1e-6));
  float root = 0;
  variance(&root, nullptr, far.data(), shape, {.deviation = true}, {});
  CHECK(root == std::sqrt(out));
}

TEST_CASE("The clip factor scales large norms down and leaves the others alone") {
  CHECK(clip_factor(0.5f, 1) == 1);
  CHECK(clip_factor(4, 1) == doctest::Approx(0.25));
  CHECK(clip_factor(0, 1) == 1);
  CHECK(clip_factor(std::numeric_limits<float>::infinity(), 1) == 0);
  CHECK(std::isnan(clip_factor(std::nanf(""), 1)));
}
