#include "core/planning/plan/equations.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/planning/plan/dice.h"
#include "tests/error_of.h"

namespace estrain::plan {
namespace {

TEST_CASE("a balanced configuration wastes nothing") {
  // 4 V100 with 2 ESTs each, 2 P100 of half the speed with 1 each.
  const Estimate found = estimate({{4, 2.0, 2}, {2, 1.0, 1}}, 10);
  CHECK(found.ests == 10);
  CHECK(found.f_overload == 1);
  CHECK(found.waste == 0);
  CHECK(found.throughput == 10);
}

TEST_CASE("waste of every device that waits for the slowest type") {
  // P100: 2 ESTs in 2 s. Each of the 3 V100 does 2 in 2 s, 1 a second of its 4: 3 wasted, by each of them.
  const Estimate found = estimate({{3, 4.0, 2}, {1, 1.0, 2}}, 8);
  CHECK(found.f_overload == 2);
  CHECK(found.waste == 9);
  CHECK(found.throughput == 4);  // 8 mini-batches in 2 s; waste counted once for each type would promise 13 - 3 = 10
}

TEST_CASE("ESTs beyond maxP are waste") {
  // 2 devices for 3 ESTs: 2 each, in 2 s; one of 4 mini-batches is wasted.
  const Estimate found = estimate({{2, 1.0, 2}}, 3);
  CHECK(found.ests == 4);
  CHECK(found.waste == 0.5);
  CHECK(found.throughput == 1.5);
}

TEST_CASE("a type of which there is no device does not count, whatever is said of it") {
  const Estimate found = estimate({{2, 1.0, 2}, {0, 0.001, 9}, {0, 0, 1}}, 4);
  CHECK(found.f_overload == 2);
  CHECK(found.waste == 0);
}

TEST_CASE("throughput is maxP mini-batches in f_overload seconds, for any configuration") {
  Dice dice(3);
  int tried = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<TypeConfiguration> types;
    int64_t ests = 0;
    for (int64_t type = dice.between(1, 5); type > 0; --type) {
      types.push_back({dice.upto(9), dice.real(0.1, 5), dice.upto(7)});
      ests += types.back().devices * types.back().ests_each;
    }
    if (ests == 0) continue;
    const int64_t most = dice.between(1, ests);
    const Estimate found = estimate(types, most);
    REQUIRE(found.throughput == doctest::Approx(static_cast<double>(most) / found.f_overload).epsilon(1e-9));
    REQUIRE(found.waste >= -1e-9);
    ++tried;
  }
  CHECK(tried > 1500);
}

TEST_CASE("an even configuration is a plan: both models agree where the exchange takes no time") {
  const std::vector<DeviceGroup> groups{{"V100", 3, 4.0}, {"P100", 1, 1.0}};
  Job job;
  job.ests = 8;
  job.one_kind = false;
  const Plan plan = evaluate(job, groups, {{0, 2}, {0, 2}, {0, 2}, {1, 2}});
  const Estimate found = estimate({{3, 4.0, 2}, {1, 1.0, 2}}, 8);
  CHECK(plan.compute_seconds == found.f_overload);
  CHECK(plan.waste == doctest::Approx(found.waste));
  CHECK(plan.throughput == doctest::Approx(found.throughput));
}

TEST_CASE("configurations that make no sense") {
  CHECK(error_of([] {
          estimate({{2, 1.0, 2}}, 5);
        }).message() == "room for 4 ESTs: the job's maximum parallelism is 5");
  CHECK(error_of([] { estimate({}, 1); }).fault() == Fault::infeasible);
  CHECK(error_of([] { estimate({{2, 1.0, 2}}, 0); }).fault() == Fault::infeasible);
  CHECK(error_of([] {
          estimate({{2, 0.0, 2}}, 4);
        }).message() == "0 mini-batches per second: must be a positive finite number");
  CHECK(error_of([] { estimate({{-2, 1.0, 2}}, 4); }).fault() == Fault::infeasible);
  CHECK(error_of([] { estimate({{2, 1.0, -2}}, 4); }).fault() == Fault::infeasible);
}

}  // namespace
}  // namespace estrain::plan
