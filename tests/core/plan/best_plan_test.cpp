#include <doctest/doctest.h>

#include <cmath>

#include "core/plan/partial_sums.h"
#include "core/plan/plan.h"
#include "tests/core/plan/brute_force.h"
#include "tests/core/plan/dice.h"
#include "tests/error_of.h"

namespace estrain::plan {
namespace {

void check_against_brute_force(const RandomJob& made, const BruteForce& all) {
  CAPTURE(made.job.ests);
  CAPTURE(made.groups.size());
  if (!std::isfinite(all.step_seconds())) {
    CHECK(error_of([&] { static_cast<void>(best_plan(made.job, made.groups)); }).fault() == Fault::infeasible);
    return;
  }
  const Plan plan = best_plan(made.job, made.groups);
  REQUIRE(plan.slack == 0);
  REQUIRE(plan.step_seconds == doctest::Approx(all.step_seconds()).epsilon(1e-12));
  REQUIRE(std::ssize(plan.workers) == all.workers());
  const Plan again = evaluate(made.job, made.groups, plan.workers);
  REQUIRE(again.step_seconds == plan.step_seconds);
  REQUIRE(again.partial_sums == plan.partial_sums);
  REQUIRE(again.compute_seconds == plan.compute_seconds);
  REQUIRE(again.exchange_seconds == plan.exchange_seconds);
  REQUIRE(again.throughput == plan.throughput);
  REQUIRE(again.waste == plan.waste);
}

// How many of so many random jobs have a plan; each compared with all plans that there are.
int64_t compare(uint64_t seed, int rounds, Limits limits) {
  Dice dice(seed);
  int64_t plans = 0, planned = 0;
  for (int round = 0; round < rounds; ++round) {
    const RandomJob made = random_job(dice, limits);
    CAPTURE(round);
    const BruteForce all(made.job, made.groups);
    check_against_brute_force(made, all);
    plans += all.plans();
    planned += std::isfinite(all.step_seconds()) ? 1 : 0;
  }
  MESSAGE(planned, " jobs that have a plan; ", plans, " plans tried");
  return planned;
}

TEST_CASE("no plan is faster than the best one: up to 12 ESTs on 6 devices of 4 types, every split and order") {
  CHECK(compare(6, 6000, {12, 6, 4}) > 4000);
}

TEST_CASE("no plan is faster than the best one: up to 26 ESTs on 4 devices of 2 types") {
  CHECK(compare(7, 3000, {26, 4, 2}) > 2000);
}

TEST_CASE("partial sums of a range are the nodes of the tree that cover it") {
  for (int64_t ests = 1; ests <= 70; ++ests) {
    for (int64_t begin = 0; begin < ests; ++begin) {
      for (int64_t end = begin + 1; end <= ests; ++end) {
        CAPTURE(ests);
        CAPTURE(begin);
        CAPTURE(end);
        REQUIRE(partial_sums(ests, begin, end) == covering_nodes(0, ests, begin, end));
      }
    }
  }
}

TEST_CASE("the most aligned position") {
  for (int64_t first = 1; first <= 40; ++first) {
    for (int64_t last = first; last <= 40; ++last) {
      const int64_t found = most_aligned(first, last);
      REQUIRE(found >= first);
      REQUIRE(found <= last);
      for (int64_t other = first; other <= last; ++other) REQUIRE((other & -other) <= (found & -found));
    }
  }
}

}  // namespace
}  // namespace estrain::plan
