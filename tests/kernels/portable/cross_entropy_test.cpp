#include "kernels/portable/cross_entropy.h"

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/reference_reduction.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using test::Floats;

namespace {

struct Example {
  Floats x, weights;
  std::vector<int64_t> targets;
  NllLoss loss;
};

Example example(int64_t rows, int64_t classes, uint32_t seed) {
  Example e = {test::normal_floats(static_cast<size_t>(rows * classes), 3, seed),
               test::normal_floats(static_cast<size_t>(classes), 1, seed + 1),
               std::vector<int64_t>(static_cast<size_t>(rows)),
               {}};
  std::mt19937 engine(seed);
  for (int64_t& target : e.targets) {
    target = engine() % 5 == 0 ? -100 : static_cast<int64_t>(engine() % static_cast<uint32_t>(classes));
  }
  e.loss.rows = rows;
  e.loss.classes = classes;
  e.loss.targets = e.targets.data();
  return e;
}

void check(const Example& e, const NllLoss& loss, Isa isa) {
  const auto weight = [&](int64_t row) {
    const int64_t target = loss.targets[row];
    return target == loss.ignore_index ? 0 : loss.weights ? loss.weights[target] : 1;
  };
  const auto term = [&](int64_t row) {
    const int64_t target = loss.targets[row];
    return target == loss.ignore_index ? 0 : -(e.x[static_cast<size_t>(row * loss.classes + target)] * weight(row));
  };
  const bool none = loss.reduction == LossReduction::none;
  Floats out(none ? static_cast<size_t>(loss.rows) : 1), back(e.x.size());
  float total = -1;
  nll_loss(out.data(), &total, e.x.data(), loss, {.isa = isa});
  const float sum = test::lane_sum(loss.rows, [&](float so_far, int64_t row) { return so_far + term(row); });
  const float weights = test::lane_sum(loss.rows, [&](float so_far, int64_t row) { return so_far + weight(row); });
  const Floats gradient = test::normal_floats(none ? static_cast<size_t>(loss.rows) : 1, 1, 9);
  nll_loss_backward(back.data(), gradient.data(), total, loss, {.isa = isa});
  CHECK(total == (none ? 0 : weights));
  if (!none) {
    const float expected = loss.reduction == LossReduction::sum ? sum : sum / weights;
    CHECK(test::bits_but_nan(out[0]) == test::bits_but_nan(expected));
  }
  for (int64_t row = 0; row < loss.rows; ++row) {
    if (none) REQUIRE(test::bits(out[static_cast<size_t>(row)]) == test::bits(term(row)));
    const float g = none                                   ? gradient[static_cast<size_t>(row)]
                    : loss.reduction == LossReduction::sum ? gradient[0]
                                                           : gradient[0] / total;
    for (int64_t c = 0; c < loss.classes; ++c) {
      const float expected = c == loss.targets[row] ? -g * weight(row) : 0;
      REQUIRE(test::bits_but_nan(back[static_cast<size_t>(row * loss.classes + c)]) == test::bits_but_nan(expected));
    }
  }
}

}  // namespace

TEST_CASE("Losses and their gradients follow their formulas on every instruction set") {
  for (int64_t rows : {0, 1, 2, 31, 33, 200, 5001}) {
    for (int64_t classes : {1, 2, 7, 10}) {
      Example e = example(rows, classes, static_cast<uint32_t>(rows * 13 + classes));
      for (LossReduction reduction : {LossReduction::none, LossReduction::mean, LossReduction::sum}) {
        e.loss.reduction = reduction;
        for (const float* weights : {static_cast<const float*>(nullptr), static_cast<const float*>(e.weights.data())}) {
          e.loss.weights = weights;
          for (Isa isa : test::isas()) check(e, e.loss, isa);
        }
      }
    }
  }
}

TEST_CASE("A target that is no class is refused") {
  const float x[2] = {0, 0};
  const int64_t target = 2;
  float out[2], total;
  const NllLoss loss = {.rows = 1, .classes = 2, .targets = &target};
  CHECK_THROWS_AS(nll_loss(out, &total, x, loss, {}), std::out_of_range);
  CHECK_THROWS_AS(nll_loss_backward(out, x, 1, loss, {}), std::out_of_range);
}
