#include "kernels/portable/batch_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/kernels/check_same.h"
#include "tests/kernels/portable/reference_batch_norm.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::kernels::test;

namespace {

struct Case {
  BatchNormShape shape;
  bool weight, bias, wild, in_place;
  size_t shift;
  uint32_t seed;
};

test::Floats values(const Case& c, size_t n, uint32_t seed, float mean = 0) {
  // Random bits make nearly every sum a NaN, so only some elements have them.
  test::Floats out = normal_floats(n, 1, seed, c.shift);
  for (size_t i = 0; i < n; ++i) out[i] += mean;
  if (!c.wild) return out;
  const test::Floats wild = wild_floats(n, seed + 1);
  for (size_t i = seed % 7; i < n; i += 97) out[i] = wild[i];
  return out;
}

size_t elements(const BatchNormShape& s) { return static_cast<size_t>(s.n * s.channels * s.hw); }

void check(const Case& c, const Execution& execution) {
  const auto channels = static_cast<size_t>(c.shape.channels);
  const test::Floats x = values(c, elements(c.shape), c.seed, 2), dy = values(c, elements(c.shape), c.seed + 2);
  const test::Floats weight = normal_floats(channels, 1, c.seed + 4), bias = normal_floats(channels, 1, c.seed + 5);
  const test::Floats old_mean = normal_floats(channels, 1, c.seed + 6);
  test::Floats old_var = normal_floats(channels, 1, c.seed + 7);
  for (size_t i = 0; i < channels; ++i) old_var[i] = std::fabs(old_var[i]);
  const float *w = c.weight ? weight.data() : nullptr, *b = c.bias ? bias.data() : nullptr;
  const BatchNormParameters parameters{w, b, 1e-5};

  ReferenceBatchNorm expected(x.size(), channels), got(x.size(), channels);
  for (size_t i = 0; i < channels; ++i) {
    expected.running_mean[i] = got.running_mean[i] = old_mean[i];
    expected.running_var[i] = got.running_var[i] = old_var[i];
  }
  reference_batch_norm_train(expected, x, c.shape, w, b, 1e-5, 0.1);
  test::Floats y = c.in_place ? x : test::Floats(x.size(), c.shift);
  batch_norm_train(y.data(), got.mean.data(), got.invstd.data(), c.in_place ? y.data() : x.data(), c.shape, parameters,
                   {got.running_mean.data(), got.running_var.data(), 0.1}, execution);
  check_same("mean", got.mean, expected.mean);
  check_same("invstd", got.invstd, expected.invstd);
  check_same("running mean", got.running_mean, expected.running_mean);
  check_same("running variance", got.running_var, expected.running_var);
  check_same("y", y, expected.y);

  reference_batch_norm_backward(expected, dy, x, c.shape, w, expected.mean, expected.invstd, true);
  test::Floats dx = c.in_place ? dy : test::Floats(x.size(), c.shift);
  batch_norm_train_backward({dx.data(), got.dweight.data(), got.dbias.data()}, c.in_place ? dx.data() : dy.data(),
                            x.data(), c.shape, w, expected.mean.data(), expected.invstd.data(), execution);
  check_same("dx", dx, expected.dx);
  check_same("dweight", got.dweight, expected.dweight);
  check_same("dbias", got.dbias, expected.dbias);

  reference_batch_norm_eval(expected, x, c.shape, w, b, old_mean, old_var, 1e-5);
  batch_norm_eval(y.data(), x.data(), c.shape, parameters, old_mean.data(), old_var.data(), execution);
  check_same("y in evaluation", y, expected.y);

  test::Floats invstd(channels);
  for (size_t i = 0; i < channels; ++i) invstd[i] = 1.0f / std::sqrt(old_var[i] + 1e-5f);
  reference_batch_norm_backward(expected, dy, x, c.shape, w, old_mean, invstd, false);
  batch_norm_eval_backward({dx.data(), got.dweight.data(), got.dbias.data()}, dy.data(), x.data(), c.shape, w,
                           old_mean.data(), old_var.data(), 1e-5, execution);
  check_same("dx in evaluation", dx, expected.dx);
  check_same("dweight in evaluation", got.dweight, expected.dweight);
  check_same("dbias in evaluation", got.dbias, expected.dbias);
  batch_norm_eval_backward({nullptr, nullptr, got.dbias.data()}, dy.data(), nullptr, c.shape, w, old_mean.data(),
                           old_var.data(), 1e-5, execution);
  check_same("dbias alone", got.dbias, expected.dbias);
}

void check_everywhere(const Case& c) {
  CAPTURE(c.shape.n);
  CAPTURE(c.shape.channels);
  CAPTURE(c.shape.hw);
  for (const Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    check(c, execution_on(isa, 1));
    if (isa == best_isa()) check(c, execution_on(isa, 2));
  }
}

}  // namespace

TEST_CASE("batch normalisation gives the bits of its definition") {
  std::mt19937 engine(1);
  const int64_t sizes[] = {1, 2, 3, 4, 9, 15, 16, 17, 25, 31, 32, 33, 47, 49, 63, 64, 65, 100, 196, 401};
  const int64_t counts[] = {1, 1, 2, 3, 4, 5, 7, 8, 13};
  for (uint32_t i = 0; i < 220; ++i) {
    const BatchNormShape shape{counts[engine() % std::size(counts)], static_cast<int64_t>(engine() % 40 + 1),
                               sizes[engine() % std::size(sizes)]};
    check_everywhere({shape, engine() % 4 != 0, engine() % 4 != 0, engine() % 3 == 0, engine() % 4 == 0, engine() % 5,
                      static_cast<uint32_t>(engine())});
  }
}

TEST_CASE("batch normalisation gives the bits of its definition where blocks end") {
  for (const auto& shape :
       {BatchNormShape{4200, 3, 1}, BatchNormShape{1030, 2, 4}, BatchNormShape{3, 1, 4096}, BatchNormShape{3, 2, 4097},
        BatchNormShape{2, 1, 9000}, BatchNormShape{5, 3, 2047}, BatchNormShape{2, 600, 1}, BatchNormShape{2, 513, 2},
        BatchNormShape{130, 2, 32}, BatchNormShape{3, 40, 300}}) {
    check_everywhere({shape, true, true, false, false, 1, 77});
  }
}

TEST_CASE("batch normalisation of nothing has gradients of zero") {
  for (const auto& shape : {BatchNormShape{0, 5, 7}, BatchNormShape{0, 5, 49}, BatchNormShape{3, 0, 9}}) {
    for (const Isa isa : isas()) {
      test::Floats zero(5), some = normal_floats(5, 1, 1), dweight = some, dbias = some;
      batch_norm_train_backward({nullptr, dweight.data(), dbias.data()}, nullptr, nullptr, shape, nullptr, zero.data(),
                                zero.data(), {.isa = isa});
      for (size_t i = 0; i < static_cast<size_t>(shape.channels); ++i) {
        REQUIRE(bits(dweight[i]) == 0);
        REQUIRE(bits(dbias[i]) == 0);
      }
    }
  }
}

TEST_CASE("batch normalisation is close to what double precision gives") {
  const BatchNormShape s{8, 3, 1111};
  const test::Floats x = normal_floats(elements(s), 3, 9);
  test::Floats y(x.size()), mean(3), invstd(3);
  batch_norm_train(y.data(), mean.data(), invstd.data(), x.data(), s, {}, {});
  for (int64_t c = 0; c < s.channels; ++c) {
    const auto i = static_cast<size_t>(c);
    double sum = 0, squares = 0;
    for_channel(s, c, [&](size_t at) { sum += static_cast<double>(x[at]); });
    const double exact = sum / 8888;
    for_channel(s, c, [&](size_t at) {
      squares += (static_cast<double>(x[at]) - exact) * (static_cast<double>(x[at]) - exact);
    });
    const double deviation = std::sqrt(squares / 8888 + 1e-5);
    CHECK(std::fabs(static_cast<double>(mean[i]) - exact) < 1e-6);
    CHECK(std::fabs(static_cast<double>(invstd[i]) * deviation - 1) < 1e-6);
    for_channel(s, c, [&](size_t at) {
      REQUIRE(std::fabs(static_cast<double>(y[at]) - (static_cast<double>(x[at]) - exact) / deviation) < 2e-6);
    });
  }
}
