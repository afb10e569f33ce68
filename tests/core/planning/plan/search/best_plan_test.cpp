#include <doctest/doctest.h>

#include <cmath>

#include "core/planning/plan/partial_sums.h"
#include "core/planning/plan/plan.h"
#include "core/state/comm/sums/reduction_tree.h"
#include "tests/core/planning/plan/brute_force.h"
#include "tests/core/planning/plan/dice.h"
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

// Compares random jobs with all possible plans; returns how many have a plan.
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

TEST_CASE("partial sums of a range are what a worker passes on") {
  for (int64_t ests = 1; ests <= 66; ++ests) {
    for (int64_t begin = 0; begin < ests; ++begin) {
      for (int64_t end = begin + 1; end <= ests; ++end) {
        const comm::FoldPlan fold = comm::plan_fold(comm::SumOrder::tree, ests, {VirtualRank(begin), VirtualRank(end)});
        REQUIRE(partial_sums(ests, begin, end) == fold.passed_on);
      }
    }
  }
}

TEST_CASE("the exchange's formula") {
  const ExchangeCost exchange{1, 10, 100, 1000};
  CHECK(exchange.seconds(1, 1) == 1 + 1000);
  CHECK(exchange.seconds(4, 9) == 1 + 30 + (800 + 1000) / 4.0);
}

TEST_CASE("the times of a plan that is given") {
  PlannedJob job;
  job.ests = 12;
  job.one_kind = false;
  job.exchange = {0.5, 0.25, 2, 1};
  job.crowding = {1, 1.5};
  const std::vector<DeviceGroup> groups{{"a", 2, 2}, {"b", 1, 1}};
  const Plan plan = evaluate(job, groups, {{0, 6}, {0, 4}, {1, 2}});
  CHECK(plan.partial_sums == 5);                         // 4 + 2, 2, 2 and 2
  CHECK(plan.compute_seconds == 3 + 0.5 / 2 * (2 + 2));  // the slowest worker, plus the others' share
  CHECK(plan.exchange_seconds == 0.5 + 0.5 + (8 + 1) / 3.0);
  CHECK(plan.step_seconds == plan.compute_seconds + plan.exchange_seconds);
  CHECK(plan.throughput == 12 / plan.step_seconds);
  CHECK(plan.waste == 5 - 12 / 3.0);
  CHECK(plan.slack == 0);
  CHECK(plan.reason ==
        "a with 6 ESTs sets the pace; imbalance leaves 20 % of the devices' speed idle, and the exchange takes "
        "50 % of the step");
}

TEST_CASE("workers that are no plan") {
  PlannedJob job;
  job.ests = 4;
  const std::vector<DeviceGroup> groups{{"a", 2, 2, 3}, {"b", 1, 1}};
  const auto refused = [&](std::vector<WorkerShare> workers) {
    const Error error = error_of([&] { (void)evaluate(job, groups, std::move(workers)); });
    CHECK(error.fault() == Fault::infeasible);
    CHECK_FALSE(error.advice().empty());
    return error.message();
  };
  CHECK(refused({}) == "the workers host fewer than the job's 4 ESTs");
  CHECK(refused({{0, 3}}) == "the workers host fewer than the job's 4 ESTs");
  CHECK(refused({{0, 3}, {0, 2}}) == "the workers host more than the job's 4 ESTs");
  CHECK(refused({{0, 4}}) == "worker 0: 4 ESTs do not fit into the memory of a, which takes 3");
  CHECK(refused({{0, 4}, {0, 0}}) == "worker 0: 4 ESTs do not fit into the memory of a, which takes 3");
  CHECK(refused({{0, 3}, {0, 0}}) == "worker 1 has 0 ESTs: every worker must host at least one");
  CHECK(refused({{0, 2}, {0, 1}, {0, 1}}) == "more workers on a than its 2 devices");
  CHECK(refused({{2, 4}}) == "worker 0: there is no device group 2");
  CHECK(refused({{-1, 4}}) == "worker 0: there is no device group -1");
  CHECK(refused({{1, INT64_MAX}}) == "the workers host more than the job's 4 ESTs");
  CHECK(refused({{0, 2}, {1, 2}}) == "workers on a and b: below D2 all devices must be of one kind");
}

TEST_CASE("a limit on the number of workers") {
  PlannedJob job;
  job.ests = 12;
  const std::vector<DeviceGroup> groups{{"a", 6, 1, 4}};
  CHECK(best_plan(job, groups).workers.size() == 6);
  CHECK(best_plan(job, groups, 4).workers.size() == 4);
  CHECK(best_plan(job, groups, 3).step_seconds == 4);
  CHECK(error_of([&] { (void)best_plan(job, groups, 2); }).message() ==
        "12 ESTs do not fit on at most 2 workers: the memory of the roomiest kind, a, takes 8");
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
