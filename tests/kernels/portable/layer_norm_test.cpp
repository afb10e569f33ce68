#include "kernels/portable/layer_norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/bits.h"
#include "tests/kernels/check_same.h"
#include "tests/kernels/portable/reference_lanes.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::kernels::test;

namespace {

struct Case {
  LayerNormShape shape;
  bool gamma, beta, wild, in_place;
  size_t shift;
  uint32_t seed;
};

struct Results {
  test::Floats y, mean, rstd, dx, dgamma, dbeta;
  Results(const LayerNormShape& s, size_t shift)
      : y(static_cast<size_t>(s.rows * s.d), shift),
        mean(static_cast<size_t>(s.rows)),
        rstd(static_cast<size_t>(s.rows)),
        dx(y.size(), shift),
        dgamma(static_cast<size_t>(s.d)),
        dbeta(static_cast<size_t>(s.d)) {}
};

template <typename Term>
float row_sum(size_t d, Term term) {
  ReferenceTotal total;
  for (size_t begin = 0; begin < d; begin += 4096) {
    ReferenceLanes lanes;
    for (size_t p = begin; p < std::min(d, begin + 4096); ++p) term(lanes, p);
    total.add(lanes.combined());
  }
  return total.total;
}

Results reference(const LayerNormShape& s, const test::Floats& x, const test::Floats& dy, const float* gamma,
                  const float* beta) {
  Results out(s, 0);
  const auto rows = static_cast<size_t>(s.rows), d = static_cast<size_t>(s.d);
  const float count = static_cast<float>(s.d);
  const auto gamma_of = [&](size_t p) { return gamma ? gamma[p] : 1.0f; };
  const auto xhat = [&](size_t row, size_t p) { return (x[row * d + p] - out.mean[row]) * out.rstd[row]; };
  for (size_t row = 0; row < rows; ++row) {
    const size_t at = row * d;
    out.mean[row] = row_sum(d, [&](auto& lanes, size_t p) { lanes.add(p, x[at + p]); }) / count;
    const float m2 = row_sum(
        d, [&](auto& lanes, size_t p) { lanes.add_product(p, x[at + p] - out.mean[row], x[at + p] - out.mean[row]); });
    out.rstd[row] = 1.0f / std::sqrt(m2 / count + 1e-5f);
    for (size_t p = 0; p < d; ++p) out.y[at + p] = std::fma(xhat(row, p), gamma_of(p), beta ? beta[p] : 0.0f);
    const float a = row_sum(d, [&](auto& lanes, size_t p) { lanes.add(p, dy[at + p] * gamma_of(p)); }) / count;
    const float b =
        row_sum(d, [&](auto& lanes, size_t p) { lanes.add_product(p, dy[at + p] * gamma_of(p), xhat(row, p)); }) /
        count;
    for (size_t p = 0; p < d; ++p) {
      out.dx[at + p] = std::fma(xhat(row, p), -b, dy[at + p] * gamma_of(p) - a) * out.rstd[row];
    }
  }
  for (size_t p = 0; p < d; ++p) {
    ReferenceTotal dgamma, dbeta;
    for (size_t begin = 0; begin < rows; begin += 64) {
      float gamma_chain = 0, beta_chain = 0;
      for (size_t row = begin; row < std::min(rows, begin + 64); ++row) {
        gamma_chain = std::fma(dy[row * d + p], xhat(row, p), gamma_chain);
        beta_chain += dy[row * d + p];
      }
      dgamma.add(gamma_chain);
      dbeta.add(beta_chain);
    }
    out.dgamma[p] = dgamma.total;
    out.dbeta[p] = dbeta.total;
  }
  return out;
}

test::Floats values(const Case& c, size_t n, uint32_t seed) {
  test::Floats out = normal_floats(n, 1, seed, c.shift);
  if (!c.wild) return out;
  const test::Floats wild = wild_floats(n, seed + 1);
  for (size_t i = seed % 7; i < n; i += 97) out[i] = wild[i];
  return out;
}

void check(const Case& c, const Execution& execution, const Results& expected, const test::Floats& x,
           const test::Floats& dy, const float* gamma, const float* beta) {
  Results got(c.shape, c.shift);
  if (c.in_place) got.y = x, got.dx = dy;
  layer_norm(got.y.data(), got.mean.data(), got.rstd.data(), c.in_place ? got.y.data() : x.data(), c.shape,
             {gamma, beta, 1e-5}, execution);
  check_same("mean", got.mean, expected.mean);
  check_same("rstd", got.rstd, expected.rstd);
  check_same("y", got.y, expected.y);
  layer_norm_backward({got.dx.data(), got.dgamma.data(), got.dbeta.data()}, c.in_place ? got.dx.data() : dy.data(),
                      x.data(), c.shape, gamma, got.mean.data(), got.rstd.data(), execution);
  check_same("dx", got.dx, expected.dx);
  check_same("dgamma", got.dgamma, expected.dgamma);
  check_same("dbeta", got.dbeta, expected.dbeta);
  layer_norm_backward({nullptr, nullptr, got.dbeta.data()}, dy.data(), x.data(), c.shape, gamma, got.mean.data(),
                      got.rstd.data(), execution);
  check_same("dbeta alone", got.dbeta, expected.dbeta);
}

void check_everywhere(const Case& c) {
  CAPTURE(c.shape.rows);
  CAPTURE(c.shape.d);
  const auto n = static_cast<size_t>(c.shape.rows * c.shape.d), d = static_cast<size_t>(c.shape.d);
  const test::Floats x = values(c, n, c.seed), dy = values(c, n, c.seed + 2);
  const test::Floats gamma = normal_floats(d, 1, c.seed + 4, c.shift), beta = normal_floats(d, 1, c.seed + 5, 1);
  const float *g = c.gamma ? gamma.data() : nullptr, *b = c.beta ? beta.data() : nullptr;
  const Results expected = reference(c.shape, x, dy, g, b);
  for (const Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    check(c, execution_on(isa, 1), expected, x, dy, g, b);
    if (isa == best_isa()) check(c, execution_on(isa, 2), expected, x, dy, g, b);
  }
}

}  // namespace

TEST_CASE("layer normalisation gives the bits of its definition") {
  std::mt19937 engine(2);
  const int64_t widths[] = {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97, 128, 200, 384};
  const int64_t rows[] = {1, 1, 2, 3, 5, 7, 8, 9, 16, 33, 64, 65};
  for (uint32_t i = 0; i < 220; ++i) {
    const LayerNormShape shape{rows[engine() % std::size(rows)], widths[engine() % std::size(widths)]};
    check_everywhere({shape, engine() % 4 != 0, engine() % 4 != 0, engine() % 3 == 0, engine() % 4 == 0, engine() % 5,
                      static_cast<uint32_t>(engine())});
  }
}

TEST_CASE("layer normalisation gives the bits of its definition where blocks end") {
  for (const auto& shape : {LayerNormShape{2, 4096}, LayerNormShape{3, 4097}, LayerNormShape{2, 8200},
                            LayerNormShape{1, 5000}, LayerNormShape{129, 64}, LayerNormShape{300, 129},
                            LayerNormShape{1000, 40}, LayerNormShape{0, 5}, LayerNormShape{4, 0}}) {
    check_everywhere({shape, true, true, false, false, 1, 78});
  }
}

TEST_CASE("layer normalisation is close to what double precision gives") {
  const test::Floats x = normal_floats(1000, 3, 9);
  test::Floats y(1000), mean(1), rstd(1);
  layer_norm(y.data(), mean.data(), rstd.data(), x.data(), {1, 1000}, {});
  double sum = 0, squares = 0;
  for (size_t i = 0; i < 1000; ++i) sum += static_cast<double>(x[i]);
  for (size_t i = 0; i < 1000; ++i) squares += std::pow(static_cast<double>(x[i]) - sum / 1000, 2);
  const double deviation = std::sqrt(squares / 1000 + 1e-5);
  for (size_t i = 0; i < 1000; ++i) {
    CHECK(std::fabs(static_cast<double>(y[i]) - (static_cast<double>(x[i]) - sum / 1000) / deviation) < 2e-6);
  }
}
