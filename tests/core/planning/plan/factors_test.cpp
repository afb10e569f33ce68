#include "core/planning/plan/factors.h"

#include <doctest/doctest.h>

#include <numeric>

namespace estrain::plan {
namespace {

// Two hosts with 1 and 3 ESTs; the gradient is a half of all. The hosts move 3,000 bytes of factors each way.
FactorOffers offers_of_two() {
  FactorOffers offers;
  offers.hosts = {{1000, 0.1, 2, 1}, {1000, 0.1, 2, 3}};
  offers.gradient_bytes = 9000;
  offers.bytes_of_all = 18000;
  return offers;
}

TEST_CASE("factors are sent if the products take less than half of the waiting that they save, on each host") {
  // The first host multiplies the factors of three ESTs: 0.3 s. It saves 6,000 of 18,000 bytes, 0.67 of 2 s of waiting.
  FactorOffers offers = offers_of_two();
  CHECK(choice_of(offers, false) == FactorChoice::sent);
  offers.hosts[0].seconds = 0.112;
  CHECK(choice_of(offers, false) == FactorChoice::too_slow);
  CHECK(choice_of(offers, true) == FactorChoice::sent);
  offers = offers_of_two();
  offers.hosts[1].seconds = 0.33;  // for one EST elsewhere
  CHECK(choice_of(offers, false) == FactorChoice::sent);
  offers.hosts[1].seconds = 0.34;
  CHECK(choice_of(offers, false) == FactorChoice::too_slow);
  for (const size_t host : {0, 1}) {
    offers = offers_of_two();
    offers.hosts[host].waited_seconds = 1.7;
    CHECK(choice_of(offers, false) == FactorChoice::too_slow);
    offers.hosts[host].waited_seconds = 1.9;
    CHECK(choice_of(offers, false) == FactorChoice::sent);
  }
}

TEST_CASE("factors are sent if they have less than half of the bytes of sums, and all hosts offer the same") {
  FactorOffers offers = offers_of_two();
  offers.gradient_bytes = 6001;
  CHECK(choice_of(offers, true) == FactorChoice::sent);
  offers.gradient_bytes = 6000;
  CHECK(choice_of(offers, true) == FactorChoice::too_large);
  offers = offers_of_two();
  offers.hosts[1].bytes = 999;
  CHECK(choice_of(offers, true) == FactorChoice::without);
  offers.hosts[0].bytes = offers.hosts[1].bytes = 0;
  CHECK(choice_of(offers, true) == FactorChoice::without);
}

TEST_CASE("factors that do not fit in their place are too large, however the ESTs are split") {
  for (const std::vector<size_t>& split : {std::vector<size_t>{1, 1}, {1, 7}, {3, 3, 2}, {1, 1, 1, 1, 1}}) {
    CAPTURE(split.size());
    const size_t ests = std::accumulate(split.begin(), split.end(), size_t{0});
    for (const size_t floats : {256 * ests, 300 * ests + 1, (size_t{1} << 28) + 5}) {
      CAPTURE(floats);
      FactorOffers offers;
      offers.gradient_bytes = offers.bytes_of_all = static_cast<double>(floats * sizeof(float));
      const size_t place = floats / ests / 16 * 64;  // comm::FactorPlaces
      for (const size_t own : split) offers.hosts.push_back({place + 64, 0, 1, own});
      CHECK(choice_of(offers, true) == FactorChoice::too_large);
    }
  }
}

}  // namespace
}  // namespace estrain::plan
