#include <doctest/doctest.h>

#include <random>

#include "core/planning/scheduling/batch_rules.h"

namespace estrain::scheduling {
namespace {

TEST_CASE("a batch is in proportion to the devices, up to a limit that each epoch doubles") {
  const BatchTerms terms{16, 1, 1000};
  CHECK(linear_batch(terms, 2, 2, 0) == 16);
  CHECK(linear_batch(terms, 8, 2, 0) == 16);
  CHECK(linear_batch(terms, 8, 2, 1) == 32);
  CHECK(linear_batch(terms, 8, 2, 2) == 64);
  CHECK(linear_batch(terms, 8, 2, 1000) == 64);
  CHECK(linear_batch(terms, 1, 2, 1) == 8);
  CHECK(linear_batch({15, 1, 1000}, 1, 2, 0) == 7);  // whole samples
  CHECK(linear_lr_factor(terms, 64) == 4);
  CHECK(linear_lr_factor(terms, 8) == 0.5);
}

TEST_CASE("the rates of Adam follow the square root of the batch") {
  const BatchTerms terms{16, 1, 1000, true};
  CHECK(linear_lr_factor(terms, 64) == 2);
  CHECK(linear_lr_factor(terms, 4) == 0.5);
  CHECK(linear_lr_factor(terms, 16) == 1);
}

TEST_CASE("whatever the job has, its owner's range holds, and more devices or epochs never mean less") {
  std::mt19937_64 random(3);
  const auto from = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 10'000; ++i) {
    BatchTerms terms{from(1, 4096), from(1, 500), 0};
    terms.most = terms.least + from(0, 100'000);
    const int64_t devices = from(1, 64), requested = from(1, 64), epochs = from(0, 100);
    const int64_t batch = linear_batch(terms, devices, requested, epochs);
    REQUIRE(batch >= terms.least);
    REQUIRE(batch <= terms.most);
    REQUIRE(linear_batch(terms, devices + 1, requested, epochs) >= batch);
    REQUIRE(linear_batch(terms, devices, requested, epochs + 1) >= batch);
    const double most = static_cast<double>(terms.own * devices) / static_cast<double>(requested);
    if (batch > terms.least) REQUIRE(static_cast<double>(batch) <= most);
    if (batch > terms.least && epochs == 0) REQUIRE(batch <= terms.own);
    REQUIRE(linear_lr_factor(terms, batch) * static_cast<double>(terms.own) == doctest::Approx(batch));
  }
}

}  // namespace
}  // namespace estrain::scheduling
