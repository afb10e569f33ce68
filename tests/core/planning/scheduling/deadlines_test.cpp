// Deadlines: the smallest satisfying shares, and who gives way where not all can be met.

#include <doctest/doctest.h>

#include "core/planning/scheduling/policies/deadline_plan.h"
#include "core/planning/scheduling/policies/policies.h"
#include "tests/core/planning/scheduling/stub_job.h"

namespace estrain::scheduling {
namespace {

// 1 s of work a step on one device, half of it on two, …
const std::vector<double> kEven = {1, 0.5, 0.5, 0.25};

TEST_CASE("each gets the smallest share with which it is in time") {
  StubPool pool({{"gpu", 4}});
  for (const double deadline : {300.0, 150.0, 90.0}) pool.add(1, kEven, 240).deadline = deadline;
  std::vector<const JobView*> jobs;
  for (const JobView& job : pool.jobs()) jobs.push_back(&job);
  const Cluster cluster({{"gpu", 4}});
  const View view{cluster, jobs, 0, 30, 0};
  const auto share = [&](size_t job) {
    DeadlinePlan plan(view, 30);
    return plan.add(job) ? plan.now(job) : 0;
  };
  CHECK(share(0) == 1);
  CHECK(share(1) == 2);
  CHECK(share(2) == 4);
  // Behind the third, which needs all until 60 s, the second has 90 s left, and takes all, too.
  DeadlinePlan plan(view, 30);
  REQUIRE(plan.add(2));
  REQUIRE(plan.add(1));
  CHECK(plan.now(1) == 0);
  CHECK(plan.area(2) == 240);
  CHECK_FALSE(DeadlinePlan({cluster, jobs, 250, 30, 0}, 30).add(1));
  CHECK_FALSE(DeadlinePlan({cluster, jobs, 0, 30, 40}, 30).add(2));  // a change costs what it has to spare
  plan.remove(2);
  plan.remove(1);
  REQUIRE(plan.add(1));
  CHECK(plan.now(1) == 2);
}

TEST_CASE("elasticflow keeps what it has admitted; ours gives up the job that needs most for more that can be met") {
  const auto met_of = [](bool reconsiders) {
    StubPool pool({{"gpu", 1}});
    const auto policy = make_elasticflow({.reconsiders = reconsiders});
    pool.add(1, {1}, 200).deadline = 235;  // takes all the time there is
    pool.decide(*policy);
    pool.add(1, {1}, 60).deadline = 100;
    pool.add(1, {1}, 60).deadline = 300;
    return pool.decide(*policy);
  };
  CHECK(met_of(false) == std::vector<int64_t>{1, 0, 0});
  CHECK(met_of(true) == std::vector<int64_t>{0, 1, 0});
}

TEST_CASE("what deadlines do not need goes to others, the shortest first, and to growth") {
  StubPool pool({{"gpu", 4}});
  const auto policy = make_elasticflow({});
  pool.add(1, kEven, 100).deadline = 1000;
  pool.jobs()[0].most = 2;
  pool.add(1, kEven, 500);
  pool.add(1, kEven, 50);
  CHECK(pool.decide(*policy) == std::vector<int64_t>{2, 1, 1});
}

}  // namespace
}  // namespace estrain::scheduling
