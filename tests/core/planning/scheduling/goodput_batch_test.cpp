#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "core/planning/scheduling/batch_rules.h"

namespace estrain::scheduling {
namespace {

BatchTimes on_line(double fixed, double each, const std::vector<int64_t>& batches) {
  BatchTimes times;
  for (const int64_t batch : batches) times.restore(batch, {fixed + each * static_cast<double>(batch), kKnown});
  return times;
}

TEST_CASE("what a sample of a larger batch is worth, and the rates that go with it") {
  const GoodputTerms terms{{16, 1, 10'000}, 8, 128, 16};  // as noisy as a step with the owner's batch is large
  CHECK(efficiency(terms, 16) == 1);
  CHECK(efficiency(terms, 48) == doctest::Approx(0.5));
  CHECK(goodput_lr_factor(terms, 16) == 1);
  CHECK(goodput_lr_factor(terms, 48) == doctest::Approx(1.5));
  GoodputTerms quiet = terms, noisy = terms;
  quiet.noise_scale = 1e-9;
  noisy.noise_scale = 1e12;
  CHECK(goodput_lr_factor(quiet, 48) == doctest::Approx(1));  // a larger batch is no better: no larger steps
  CHECK(goodput_lr_factor(noisy, 48) == doctest::Approx(3));
  GoodputTerms of_adam = terms;
  of_adam.terms.square_root = true;
  CHECK(goodput_lr_factor(of_adam, 16) == 1);
  CHECK(goodput_lr_factor(of_adam, 48) == doctest::Approx(std::sqrt(1.5)));
}

TEST_CASE("the greatest goodput of all batches is within a hundredth of what is taken") {
  std::mt19937_64 random(7);
  const auto drawn = [&](double least, double most) {
    return least * std::exp(std::uniform_real_distribution<double>(0, std::log(most / least))(random));
  };
  for (int i = 0; i < 500; ++i) {
    const BatchTerms owner{static_cast<int64_t>(drawn(4, 64)), 1, static_cast<int64_t>(drawn(64, 4096))};
    GoodputTerms terms{owner, 1 + static_cast<int64_t>(random() % 16), drawn(10, 1e5), owner.own};
    const double fixed = drawn(1e-4, 1), each = drawn(1e-5, 1e-2);
    const BatchTimes times = on_line(fixed, each, {owner.own, 5000});
    const auto goodput = [&](int64_t batch) {
      return static_cast<double>(batch) / (fixed + each * static_cast<double>(batch)) * efficiency(terms, batch);
    };
    const int64_t taken = goodput_batch(terms, times);
    CHECK(taken >= owner.own);
    CHECK(taken <= owner.most);
    double best = 0;
    for (int64_t batch = owner.own; batch <= owner.most; ++batch) best = std::max(best, goodput(batch));
    if (taken == owner.own) {
      CHECK(goodput(taken) * 1.1 >= best * 0.99);
    } else {
      CHECK(goodput(taken) >= best * 0.99);
      CHECK(goodput(taken) > 1.1 * goodput(owner.own));
    }
  }
}

TEST_CASE("an unknown batch is tried if its samples are worth enough, and never more than twice what was measured") {
  GoodputTerms terms{{16, 1, 10'000}, 8, 1000, 16};
  CHECK(goodput_batch(terms, {}) == 16);
  CHECK(goodput_batch(terms, on_line(1, 0.001, {16})) == 32);
  CHECK(goodput_batch(terms, on_line(1, 0.001, {16, 32})) == 64);
  BatchTimes few;
  few.observe(16, 1);
  CHECK(goodput_batch(terms, few) == 16);
  terms.noise_scale = 100;
  CHECK(goodput_batch(terms, on_line(1, 0.001, {16})) == 16);
  terms.noise_scale = 1000;
  terms.terms.most = 20;
  CHECK(goodput_batch(terms, on_line(1, 0.001, {16})) == 20);
  terms.terms.most = 10;  // an owner's range without the owner's batch
  CHECK(goodput_batch(terms, on_line(1, 0.001, {16})) == 16);
}

TEST_CASE("a line through what was measured, without negative parts") {
  CHECK(BatchTimes().seconds(8) == 0);
  CHECK(on_line(0.5, 0.01, {16}).seconds(32) == doctest::Approx(2 * 0.66));
  CHECK(on_line(0.5, 0.01, {16, 64, 128}).seconds(32) == doctest::Approx(0.82));
  BatchTimes falling, steep;
  falling.observe(16, 0.2);
  falling.observe(32, 0.1);
  CHECK(falling.seconds(1000) == doctest::Approx(0.15));
  steep.observe(10, 0.1);
  steep.observe(20, 0.4);
  CHECK(steep.seconds(0) == 0);
  CHECK(steep.seconds(20) == doctest::Approx(0.36));
  BatchTimes odd;
  odd.observe(16, 0);
  odd.observe(16, std::nan(""));
  odd.observe(0, 1);
  CHECK(odd.measured().empty());
  odd.observe(16, 1);
  odd.observe(16, 2);
  CHECK(odd.seconds(16) == doctest::Approx(1.5));
  for (int i = 0; i < 1000; ++i) odd.observe(16, 4);
  CHECK(odd.seconds(16) == doctest::Approx(4).epsilon(0.01));
}

}  // namespace
}  // namespace estrain::scheduling
