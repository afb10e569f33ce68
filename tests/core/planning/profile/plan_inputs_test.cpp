#include "core/planning/profile/plan_inputs.h"

#include <doctest/doctest.h>

#include <random>

namespace estrain::profile {
namespace {

constexpr int64_t kWorkers[] = {1, 2, 2, 4, 4, 8};
constexpr int64_t kSums[] = {1, 2, 4, 4, 8, 16};

std::vector<ExchangeSample> samples_of(const plan::ExchangeCost& truth, double noise = 0) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, noise);
  std::vector<ExchangeSample> samples;
  for (int round = 0; round < 40; ++round) {
    for (size_t i = 0; i < std::size(kWorkers); ++i) {
      const double seconds = truth.seconds(kWorkers[i], kSums[i]) * (1 + normal(random));
      samples.push_back({kWorkers[i], kSums[i], {seconds, 0, 1, 0}});
    }
  }
  return samples;
}

TEST_CASE("coefficients that made the samples are found again") {
  const plan::ExchangeCost truth{0.001, 0.0005, 0.004, 0.012};
  const plan::ExchangeCost found = fit_exchange(samples_of(truth));
  CHECK(found.base == doctest::Approx(truth.base).epsilon(1e-3));
  CHECK(found.per_worker == doctest::Approx(truth.per_worker).epsilon(1e-3));
  CHECK(found.per_sum == doctest::Approx(truth.per_sum).epsilon(1e-3));
  CHECK(found.update == doctest::Approx(truth.update).epsilon(1e-3));
  const plan::ExchangeCost noisy = fit_exchange(samples_of(truth, 0.1));
  for (size_t i = 0; i < std::size(kWorkers); ++i)
    CHECK(noisy.seconds(kWorkers[i], kSums[i]) == doctest::Approx(truth.seconds(kWorkers[i], kSums[i])).epsilon(0.05));
}

TEST_CASE("no coefficient is below zero, and the others make the best of it") {
  // More sums in less time: noise, not a law.
  const plan::ExchangeCost found = fit_exchange({{2, 2, {0.010, 0, 1, 0}}, {2, 4, {0.008, 0, 1, 0}}});
  CHECK(found.base >= 0);
  CHECK(found.per_worker >= 0);
  CHECK(found.per_sum >= 0);
  CHECK(found.update >= 0);
  CHECK(found.seconds(2, 2) == doctest::Approx(0.009).epsilon(0.01));
  CHECK(found.seconds(2, 4) == doctest::Approx(0.009).epsilon(0.01));
}

TEST_CASE("with one number of workers the samples are met, and elsewhere nothing is wild") {
  const plan::ExchangeCost found = fit_exchange({{2, 2, {0.010, 0, 1, 0}}, {2, 4, {0.014, 0, 1, 0}}});
  CHECK(found.seconds(2, 2) == doctest::Approx(0.010).epsilon(1e-3));
  CHECK(found.seconds(2, 4) == doctest::Approx(0.014).epsilon(1e-3));
  CHECK(found.seconds(1, 1) < 0.02);
  CHECK(found.seconds(4, 4) < 0.05);
}

TEST_CASE("a sample measured often counts more than one that was scaled") {
  const plan::ExchangeCost found = fit_exchange({{2, 2, {0.010, 0, 8, 0}}, {2, 2, {0.030, 0, 0, 0}}});
  CHECK(found.seconds(2, 2) < 0.012);
}

TEST_CASE("nothing measured costs nothing") {
  const plan::ExchangeCost found = fit_exchange({});
  CHECK(found.seconds(4, 8) == 0);
}

}  // namespace
}  // namespace estrain::profile
