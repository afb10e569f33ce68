#include "kernels/portable/softmax.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_arithmetic.h"
#include "tests/kernels/portable/reference_reduction.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using test::Floats;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

size_t num_elements(const SoftmaxShape& shape) { return static_cast<size_t>(shape.outer * shape.dim * shape.inner); }

// Calls body(element) for each slice; element(d) is the index of its d-th element.
template <typename Body>
void for_stretches(const SoftmaxShape& shape, Body body) {
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    for (int64_t inner = 0; inner < shape.inner; ++inner) {
      body([&shape, outer, inner](int64_t d) {
        return static_cast<size_t>((outer * shape.dim + d) * shape.inner + inner);
      });
    }
  }
}

Floats reference_forward(const Floats& x, const SoftmaxShape& shape, bool logarithmic) {
  Floats out(x.size());
  for_stretches(shape, [&](auto at) {
    float max = -infinity;
    for (int64_t d = 0; d < shape.dim; ++d) max = std::fmax(max, x[at(d)]);
    max += 0.0f;
    const float sum = test::ordered_sum(
        shape.inner, shape.dim, [&](float so_far, int64_t d) { return so_far + scalar::exponential(x[at(d)] - max); });
    for (int64_t d = 0; d < shape.dim; ++d) {
      const float below = x[at(d)] - max;
      out[at(d)] = logarithmic ? below - scalar::logarithm(sum) : scalar::exponential(below) / sum;
    }
  });
  return out;
}

Floats reference_backward(const Floats& g, const Floats& y, const SoftmaxShape& shape, bool logarithmic) {
  Floats out(g.size());
  for_stretches(shape, [&](auto at) {
    const float sum = test::ordered_sum(shape.inner, shape.dim, [&](float so_far, int64_t d) {
      return logarithmic ? so_far + g[at(d)] : std::fma(g[at(d)], y[at(d)], so_far);
    });
    for (int64_t d = 0; d < shape.dim; ++d) {
      const size_t i = at(d);
      out[i] = logarithmic ? std::fma(-scalar::exponential(y[i]), sum, g[i]) : (g[i] - sum) * y[i];
    }
  });
  return out;
}

void check(const SoftmaxShape& shape, const Floats& x, const Floats& gradient, const Execution& execution) {
  CAPTURE(isa_name(execution.isa));
  CAPTURE(shape.outer);
  CAPTURE(shape.dim);
  CAPTURE(shape.inner);
  for (bool logarithmic : {false, true}) {
    CAPTURE(logarithmic);
    const auto forward = logarithmic ? log_softmax : softmax;
    const auto backward = logarithmic ? log_softmax_backward : softmax_backward;
    Floats out(x.size(), 1), in_place = x;
    forward(out.data(), x.data(), shape, execution);
    forward(in_place.data(), in_place.data(), shape, execution);
    const Floats expected = reference_forward(x, shape, logarithmic);
    REQUIRE(test::first_difference(out, expected) == x.size());
    REQUIRE(test::first_difference(in_place, expected) == x.size());
    Floats back(x.size(), 2);
    backward(back.data(), gradient.data(), out.data(), shape, execution);
    REQUIRE(test::first_difference(back, reference_backward(gradient, out, shape, logarithmic)) == x.size());
  }
}

int64_t below(std::mt19937& engine, int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint32_t>(n)); }

}  // namespace

TEST_CASE("Softmax of any shape follows its order on every instruction set") {
  std::mt19937 engine(1);
  std::vector<SoftmaxShape> shapes = {{0, 5, 1},    {3, 0, 1},    {2, 3, 0},   {1, 1, 1},   {4, 1, 3},
                                      {8, 10, 1},   {2, 1000, 1}, {2, 32, 1},  {2, 64, 1},  {1, 4096, 1},
                                      {1, 4099, 1}, {1, 9001, 1}, {1, 256, 4}, {1, 515, 18}};
  for (int i = 0; i < 200; ++i) {
    shapes.push_back({1 + below(engine, 4), below(engine, 150), i % 2 == 0 ? 1 : 1 + below(engine, 40)});
  }
  uint32_t seed = 0;
  for (const SoftmaxShape& shape : shapes) {
    const size_t n = num_elements(shape);
    Floats x = test::normal_floats(n, 10, seed, seed % 3), gradient = test::normal_floats(n, 1, seed + 1);
    if (seed % 5 == 0) gradient = test::wild_floats(n, seed);
    if (seed % 7 == 0) x = test::wild_floats(n, seed);
    if (seed % 7 == 1 && n > 0) x[n / 2] = -infinity;
    ++seed;
    for (Isa isa : test::isas()) check(shape, x, gradient, {.isa = isa});
  }
}

TEST_CASE("Softmax gives the same bits on threads") {
  for (const SoftmaxShape& shape : {SoftmaxShape{300, 100, 1}, {40, 30, 50}}) {
    const Floats x = test::normal_floats(num_elements(shape), 3, 1), g = test::normal_floats(num_elements(shape), 1, 2);
    check(shape, x, g, test::execution_on(best_isa(), 3));
  }
}

TEST_CASE("Softmax and its logarithm are near the exact values") {
  const SoftmaxShape shape = {50, 333, 1};
  const Floats x = test::normal_floats(num_elements(shape), 4, 3);
  Floats y(x.size()), logarithm(x.size());
  softmax(y.data(), x.data(), shape, {});
  log_softmax(logarithm.data(), x.data(), shape, {});
  for_stretches(shape, [&](auto at) {
    double sum = 0;
    for (int64_t d = 0; d < shape.dim; ++d) sum += std::exp(static_cast<double>(x[at(d)]));
    for (int64_t d = 0; d < shape.dim; ++d) {
      const double exact = std::exp(static_cast<double>(x[at(d)])) / sum;
      REQUIRE(std::fabs(y[at(d)] - exact) < 2e-6 * exact);
      REQUIRE(std::fabs(logarithm[at(d)] - std::log(exact)) < 3e-6);
    }
  });
}

TEST_CASE("Softmax of special rows") {
  const float nan = std::nanf(""), rows[][3] = {{1, nan, 2}, {1, infinity, 2}, {-infinity, -infinity, -infinity}};
  for (const auto& row : rows) {
    float y[3];
    softmax(y, row, {1, 3, 1}, {});
    for (float value : y) CHECK(std::isnan(value));
  }
  const float masked[3] = {-infinity, 5, -infinity};
  float y[3];
  softmax(y, masked, {1, 3, 1}, {});
  CHECK(y[0] == 0);
  CHECK(y[1] == 1);
  log_softmax(y, masked, {1, 3, 1}, {});
  CHECK(y[0] == -infinity);
  CHECK(y[1] == 0);
}
