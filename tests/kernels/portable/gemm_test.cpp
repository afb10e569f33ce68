#include "kernels/portable/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_gemm.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::test;
using portable::Gemm;
using portable::GemmOperand;

namespace {

constexpr float kGuard = 12345.0f;

// The memory of one operand, with its elements at the strides' positions.
struct Stored {
  test::Floats memory;
  GemmOperand operand;
};

enum class Order { rows, columns, scattered, broadcast };

Stored stored(int64_t batch, int64_t rows, int64_t columns, Order order, int64_t gap, bool wild, uint32_t seed) {
  GemmOperand x;
  if (order == Order::rows) x.row_stride = columns + gap, x.column_stride = 1;
  if (order == Order::columns) x.row_stride = 1, x.column_stride = rows + gap;
  if (order == Order::scattered) x.row_stride = 2 * columns + gap + 1, x.column_stride = 2;
  if (order == Order::broadcast) x.row_stride = 0, x.column_stride = 1;
  x.batch_stride = rows * std::max<int64_t>(x.row_stride, 1) + columns * x.column_stride + gap;
  const auto floats = static_cast<size_t>(batch * x.batch_stride + 1);
  const size_t shift = seed % 5;
  Stored out = {wild ? wild_floats(floats, seed, shift) : normal_floats(floats, 1, seed, shift), x};
  out.operand.data = out.memory.data();
  return out;
}

struct Case {
  int64_t batch, m, n, k;
  Order a = Order::rows, b = Order::rows, d = Order::rows;
  bool has_addend = false, in_place = false, wild = false;
  float alpha = 1, beta = 1;
  int64_t gap = 0;
  uint32_t seed = 1;
};

// C before the product: D itself if in place.
test::Floats fresh_output(const Case& c, int64_t row_stride) {
  return normal_floats(static_cast<size_t>(c.batch * c.m * row_stride + 1), 1, c.seed + 9);
}

// The bits of one case on every instruction set, with one thread and with three.
void check(const Case& c) {
  const Stored a = stored(c.batch, c.m, c.k, c.a, c.gap, c.wild, 3 * c.seed);
  const Stored b = stored(c.batch, c.k, c.n, c.b, c.gap, c.wild, 3 * c.seed + 1);
  const Stored d = stored(c.batch, c.m, c.n, c.d, c.gap, c.wild, 3 * c.seed + 2);
  const int64_t row_stride = c.n + c.gap;
  Gemm g{.batch = c.batch, .m = c.m, .n = c.n, .k = c.k, .a = a.operand, .b = b.operand};
  g.c_batch_stride = c.m * row_stride;
  g.c_row_stride = row_stride;
  g.alpha = c.alpha;
  g.beta = c.beta;
  const GemmOperand own = {nullptr, g.c_batch_stride, g.c_row_stride, 1};
  if (c.has_addend) g.d = c.in_place ? own : d.operand;

  const test::Floats before = fresh_output(c, row_stride);
  if (c.has_addend && c.in_place) g.d.data = before.data();
  test::Floats expected = before;
  for (int64_t batch = 0; batch < c.batch; ++batch) {
    for (int64_t row = 0; row < c.m; ++row) {
      for (int64_t column = 0; column < c.n; ++column) {
        expected[static_cast<size_t>((batch * c.m + row) * row_stride + column)] =
            reference_gemm(g, batch, row, column);
      }
    }
  }
  CAPTURE(c.batch);
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(static_cast<int>(c.a));
  CAPTURE(static_cast<int>(c.b));
  for (const Isa isa : isas()) {
    if (isa == Isa::baseline && c.batch * c.m * c.n * c.k > 200'000) continue;
    for (const int threads : {1, 3}) {
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      test::Floats out = before;
      g.c = out.data();
      if (c.has_addend && c.in_place) g.d.data = out.data();
      portable::gemm(g, execution_on(isa, threads));
      const size_t different = first_difference(out, expected);
      REQUIRE(different == expected.size());
    }
  }
}

Order random_order(std::mt19937& engine) {
  const Order orders[] = {Order::rows, Order::columns, Order::rows, Order::columns, Order::scattered};
  return orders[engine() % 5];
}

int64_t random_size(std::mt19937& engine) {
  constexpr int64_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 47, 64, 67, 97, 128, 131};
  return sizes[engine() % std::size(sizes)];
}

int64_t random_depth(std::mt19937& engine) {
  constexpr int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 16, 31, 64, 100, 255, 256, 257, 300, 511, 512, 513, 770};
  return sizes[engine() % std::size(sizes)];
}

}  // namespace

TEST_CASE("gemm: every instruction set and number of threads gives the definition's bits, whatever the strides") {
  std::mt19937 engine(11);
  for (uint32_t round = 0; round < 400; ++round) {
    Case c = {.batch = engine() % 4 == 0 ? 3 : 1,
              .m = random_size(engine),
              .n = random_size(engine),
              .k = random_depth(engine),
              .a = random_order(engine),
              .b = random_order(engine)};
    c.seed = round + 1;
    c.has_addend = engine() % 2 == 0;
    c.in_place = engine() % 3 == 0;
    c.d = engine() % 2 == 0 ? Order::broadcast : random_order(engine);
    c.alpha = engine() % 2 == 0 ? 1.0f : 0.3f;
    c.beta = engine() % 2 == 0 ? 1.0f : engine() % 4 == 0 ? 0.0f : -0.7f;
    c.wild = engine() % 8 == 0;
    c.gap = engine() % 3 == 0 ? engine() % 7 : 0;
    check(c);
  }
}

TEST_CASE("gemm: shapes beyond one chunk of rows, lanes or blocks") {
  check({.batch = 1, .m = 1100, .n = 37, .k = 260});
  check({.batch = 1, .m = 531, .n = 150, .k = 520, .b = Order::columns});
  check({.batch = 1, .m = 19, .n = 2100, .k = 20});
  check({.batch = 1, .m = 520, .n = 2070, .k = 9, .b = Order::columns});
  check({.batch = 1, .m = 5, .n = 6, .k = 20'000, .a = Order::columns});
  check({.batch = 1, .m = 1, .n = 300, .k = 1100});
  check({.batch = 1, .m = 300, .n = 1, .k = 1100});
  check({.batch = 1, .m = 2, .n = 260, .k = 700, .b = Order::columns});
}

TEST_CASE("gemm: floats of every kind") {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    check({.batch = 1, .m = 20, .n = 35, .k = 3, .has_addend = true, .wild = true, .seed = seed});
    check({.batch = 1, .m = 20, .n = 35, .k = 2, .b = Order::columns, .wild = true, .alpha = 2, .seed = seed});
  }
}

TEST_CASE("gemm: beta == 0 leaves D unread, k == 0 gives zeros, or D") {
  const test::Floats ones = normal_floats(64, 1, 3);
  for (const Isa isa : isas()) {
    test::Floats out(4);
    out[0] = out[1] = out[2] = out[3] = NAN;
    Gemm g{.m = 2, .n = 2, .k = 3, .a = {ones.data(), 0, 3, 1}, .b = {ones.data(), 0, 2, 1}};
    g.c = out.data();
    g.c_row_stride = 2;
    g.d = {out.data(), 0, 2, 1};
    g.beta = 0;
    portable::gemm(g, execution_on(isa, 1));
    CHECK(bits(out[3]) == bits(reference_gemm(g, 0, 1, 1)));
    g.k = 0;
    g.alpha = 1;
    portable::gemm(g, execution_on(isa, 1));
    for (size_t i = 0; i < 4; ++i) CHECK(bits(out[i]) == 0);
    g.beta = 1;
    g.d = {ones.data(), 0, 0, 1};
    portable::gemm(g, execution_on(isa, 1));
    for (size_t i = 0; i < 4; ++i) CHECK(bits(out[i]) == bits(ones[i % 2]));
  }
}

TEST_CASE("gemm: memory beyond the operands is not read, beyond C's rows not written") {
  // Operands that end where their arrays end, so that sanitizers detect a read beyond them.
  for (const int64_t n : {1, 3, 15, 16, 17, 31, 33}) {
    for (const int64_t k : {1, 2, 5, 16}) {
      const std::vector<float> a(static_cast<size_t>(7 * k), 1.0f), b(static_cast<size_t>(k * n), 1.0f);
      for (const Isa isa : isas()) {
        std::vector<float> out(static_cast<size_t>(7 * (n + 1)), kGuard);
        Gemm g{.m = 7, .n = n, .k = k, .a = {a.data(), 0, k, 1}, .b = {b.data(), 0, n, 1}};
        g.c = out.data();
        g.c_row_stride = n + 1;
        portable::gemm(g, execution_on(isa, 1));
        for (int64_t row = 0; row < 7; ++row) {
          for (int64_t column = 0; column <= n; ++column) {
            const float expected = column == n ? kGuard : static_cast<float>(k);
            REQUIRE(out[static_cast<size_t>(row * (n + 1) + column)] == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("gemm: the error against doubles is no worse than that of a plain sum") {
  const int64_t m = 17, n = 33, k = 3000;
  const Stored a = stored(1, m, k, Order::rows, 0, false, 1), b = stored(1, k, n, Order::rows, 0, false, 2);
  test::Floats out(static_cast<size_t>(m * n));
  Gemm g{.m = m, .n = n, .k = k, .a = a.operand, .b = b.operand};
  g.c = out.data();
  g.c_row_stride = n;
  portable::gemm(g, execution_on(best_isa(), 1));
  double ours = 0, plain = 0;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double exact = 0;
      float sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        const float x = element(g.a, 0, row, p), y = element(g.b, 0, p, column);
        exact += static_cast<double>(x) * y;
        sum += x * y;
      }
      ours += std::pow(out[static_cast<size_t>(row * n + column)] - exact, 2);
      plain += std::pow(sum - exact, 2);
    }
  }
  CHECK(ours <= plain);
}
