// Whether an update reports numbers that are not finite.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/optimizer.h"
#include "tests/kernels/optimizer_settings.h"

using namespace estrain::kernels;
using namespace test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

template <typename Optimizer>
bool leaves_all_finite(const Optimizer& optimizer, const State& from, const Floats& gradient, Isa isa, bool portable,
                       float factor = 1, bool stream = false) {
  State to = from;
  OptimizerPiece piece = piece_of(from, to, gradient, 0, gradient.size());
  piece.portable = portable;
  piece.gradient_factor = factor;
  piece.stream = stream;
  const bool finite = update(optimizer, piece, isa).finite;
  bool expected = true;
  for (size_t i = 0; i < gradient.size(); ++i) {
    expected &= std::isfinite(to.parameter[i]);
    for (const Floats& slot : to.slots) expected &= std::isfinite(slot[i]);
  }
  CHECK(finite == expected);  // for any gradient, as promised
  return finite;
}

// One non-finite number at every position of pieces with and without tails: it must be reported exactly there.
template <typename Optimizer>
void check_every_lane(const Optimizer& optimizer, float strange, bool finite) {
  for (Isa isa : isas()) {
    for (bool portable : {false, true}) {
      CAPTURE(isa_name(isa));
      CAPTURE(portable);
      for (size_t n : {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 1040}) {
        const State from = random_state(optimizer, n);
        Floats gradient = normal_floats(n, 1, 4);
        REQUIRE(leaves_all_finite(optimizer, from, gradient, isa, portable));
        for (size_t i = 0; i < n; i += n < 1000 ? 1 : 13) {
          CAPTURE(i);
          const float usual = gradient[i];
          gradient[i] = strange;
          REQUIRE(leaves_all_finite(optimizer, from, gradient, isa, portable) == finite);
          REQUIRE(leaves_all_finite(optimizer, from, gradient, isa, portable, 0.5f, true) == finite);
          gradient[i] = usual;
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a gradient that is not finite is seen in every lane") {
  for (float strange : {not_a_number, infinity, -infinity}) {
    for_all_settings([&](const auto& settings, int) { check_every_lane(settings, strange, false); });
  }
}

TEST_CASE("the smallest and the largest gradients are finite numbers like any other, where what is made of them is") {
  constexpr float largest = std::numeric_limits<float>::max(), denormal = std::numeric_limits<float>::denorm_min();
  for (float strange : {denormal, -denormal, 1e-40f, -0.0f}) {
    for_all_settings([&](const auto& settings, int) { check_every_lane(settings, strange, true); });
  }
  for (float strange : {largest, -largest}) {
    check_every_lane(Sgd{.lr = 0.1}, strange, true);
    check_every_lane(Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4}, strange, true);
    check_every_lane(Adam{.lr = 1e-3}, strange, false);  // its square is finite
  }
}

TEST_CASE("what becomes infinite in the update, or was before, is seen too") {
  const size_t n = 37;
  const Floats gradient = normal_floats(n, 1, 4);
  for (Isa isa : isas()) {
    CAPTURE(isa_name(isa));
    CHECK_FALSE(
        leaves_all_finite(Sgd{.lr = 1e38, .momentum = 0.9}, random_state(n), normal_floats(n, 1e3f, 4), isa, false));
    CHECK_FALSE(leaves_all_finite(Adam{.lr = 3e38, .beta1 = 0.99, .step = 1}, random_state(n), gradient, isa, false));
    for (size_t i = 0; i < n; ++i) {
      State parameter = random_state(n), first = random_state(n), second = random_state(n);
      parameter.parameter[i] = not_a_number;
      first.slots[0][i] = -infinity;
      second.slots[1][i] = infinity;
      CHECK_FALSE(leaves_all_finite(Sgd{.lr = 0.1}, parameter, gradient, isa, false));
      CHECK_FALSE(leaves_all_finite(Sgd{.lr = 0.1, .momentum = 0.9}, first, gradient, isa, false));
      CHECK_FALSE(leaves_all_finite(Adam{.lr = 0.1}, parameter, gradient, isa, false));
      CHECK_FALSE(leaves_all_finite(Adam{.lr = 0.1}, first, gradient, isa, false));
      CHECK_FALSE(leaves_all_finite(Adam{.lr = 0.1}, second, gradient, isa, false));
    }
  }
}

TEST_CASE("the lanes behind a piece's end are not asked whether they are finite") {
  for (Isa isa : isas()) {
    for (size_t n = 1; n < 40; ++n) {
      State from = random_state(n + 20), to = from;
      Floats gradient = normal_floats(n + 20, 1, 9);
      for (size_t i = n; i < n + 20; ++i)
        gradient[i] = from.parameter[i] = from.slots[0][i] = from.slots[1][i] = not_a_number;
      CHECK(update(Adam{.lr = 1, .eps = 0}, piece_of(from, to, gradient, 0, n), isa).finite);
      CHECK(update(Sgd{.lr = 1, .momentum = 0.9}, piece_of(from, to, gradient, 0, n), isa).finite);
    }
  }
}
