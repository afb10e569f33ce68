#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "core/planning/plan/changes/change.h"
#include "tests/error_of.h"

namespace estrain::plan {
namespace {

using Judgement = FallBackWatch::Judgement;

Plan plan_of(double step_seconds, std::vector<WorkerShare> workers) {
  Plan plan;
  plan.workers = std::move(workers);
  plan.step_seconds = step_seconds;
  return plan;
}

const std::vector<WorkerShare> kTwo{{0, 4}, {0, 4}}, kFour{{0, 2}, {0, 2}, {0, 2}, {0, 2}};

// A job that grew from 2 to 4 workers, with a predicted 1 s a step instead of 2. Default rules.
class Run {
 public:
  explicit Run(double before = 2, FallBackWatch::Rules rules = {})
      : watch_(plan_of(2, kTwo), before, plan_of(1, kFour), rules) {}

  // One observation per second, of steps of this length; returns the decision and after how many seconds.
  std::optional<Judgement> seconds(int count, double step_seconds) {
    std::optional<Judgement> decided;
    for (int i = 0; i < count; ++i) {
      now_ += 1;
      if (auto decision = watch_.observe(step_seconds, now_)) {
        CHECK_FALSE(decided);
        decided = decision;
        decided_after_ = i + 1;
      }
    }
    return decided;
  }
  void set_clock(double by) { now_ += by; }
  int decided_after() const { return decided_after_; }
  FallBackWatch& watch() { return watch_; }

 private:
  FallBackWatch watch_;
  double now_ = 1000;
  int decided_after_ = 0;
};

TEST_CASE("slower than estimated for ten seconds, and slower than before: back to the plan before") {
  Run run;
  CHECK_FALSE(run.seconds(100, 1.05));
  const auto decision = run.seconds(100, 3);
  REQUIRE(decision);
  CHECK(run.decided_after() == 10);
  CHECK(decision->fall_back);
  CHECK(decision->plan.workers == kTwo);
  CHECK(decision->measured_over_estimated == doctest::Approx(3));
  CHECK(decision->slow_seconds == doctest::Approx(10));
  CHECK(decision->reason ==
        "steps took 3 s for 10 s, 3.00 times the estimate; those of the plan before took 2 s: falls back to it");
}

TEST_CASE("slower than estimated but faster than before: it stays, and the estimate is corrected") {
  Run run;
  const auto decision = run.seconds(20, 1.5);
  REQUIRE(decision);
  CHECK_FALSE(decision->fall_back);
  CHECK(decision->plan.workers == kFour);
  CHECK(decision->measured_over_estimated == doctest::Approx(1.5));
  CHECK(decision->reason ==
        "steps took 1.5 s for 10 s, 1.50 times the estimate; those of the plan before took 2 s: stays, with the "
        "estimate corrected");
}

TEST_CASE("what steps of the plan before really took is what counts") {
  Run run(4);  // they had been estimated at 2 s
  const auto decision = run.seconds(20, 3);
  REQUIRE(decision);
  CHECK_FALSE(decision->fall_back);
}

TEST_CASE("within the margin, or not for long enough, nothing happens") {
  Run run;
  CHECK_FALSE(run.seconds(1000, 1.19));
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(run.seconds(9, 3));
    CHECK_FALSE(run.seconds(1, 1));
  }
}

TEST_CASE("between recovered and the margin nothing is counted and nothing forgotten") {
  Run run;
  CHECK_FALSE(run.seconds(9, 3));
  CHECK(run.watch().slow_seconds() == doctest::Approx(8));  // no time precedes the first observation
  CHECK_FALSE(run.seconds(100, 1.15));
  CHECK(run.watch().slow_seconds() == doctest::Approx(8));
  CHECK(run.seconds(2, 3));
}

TEST_CASE("one decision for each episode: the next only after it has run as estimated for as long") {
  Run run;
  CHECK(run.seconds(20, 3));
  CHECK_FALSE(run.seconds(500, 3));
  CHECK_FALSE(run.seconds(5, 1));
  CHECK_FALSE(run.seconds(500, 3));  // five good seconds are no recovery
  CHECK_FALSE(run.seconds(12, 1));
  CHECK(run.seconds(20, 3));
}

TEST_CASE("a clock that jumps does not count") {
  Run run;
  CHECK_FALSE(run.seconds(3, 3));
  SUBCASE("hours ahead") { run.set_clock(5 * 3600); }
  SUBCASE("hours back") { run.set_clock(-5 * 3600); }
  const double before = run.watch().slow_seconds();
  CHECK_FALSE(run.seconds(1, 3));
  CHECK(run.watch().slow_seconds() == before);
  const auto decision = run.seconds(20, 3);  // and the watch continues from there
  REQUIRE(decision);
  CHECK(run.decided_after() == 8);
}

TEST_CASE("a clock that jumps all the time never decides") {
  Run run;
  for (int i = 0; i < 200; ++i) {
    CHECK_FALSE(run.seconds(1, 3));
    run.set_clock(i % 2 == 0 ? 7200 : -7300);
  }
}

TEST_CASE("a few long steps are too few observations") {
  FallBackWatch::Rules rules;
  rules.longest_gap = 100;
  FallBackWatch watch(plan_of(2, kTwo), 2, plan_of(1, kFour), rules);
  for (int i = 0; i < 4; ++i) CHECK_FALSE(watch.observe(3, 20 * i));
  CHECK(watch.observe(3, 80));
}

TEST_CASE("measurements that are no times are passed over") {
  Run run;
  for (const double nonsense : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_FALSE(run.seconds(50, nonsense));
  }
  CHECK_FALSE(run.watch().observe(3, std::nan("")));
  CHECK(run.watch().slow_seconds() == 0);
}

TEST_CASE("rules that contradict each other, plans without an estimate") {
  FallBackWatch::Rules rules;
  rules.recovered = 0.5;
  CHECK(error_of([&] { Run(2, rules); }).fault() == Fault::bug);
  CHECK(error_of([] { Run(0); }).fault() == Fault::bug);
  CHECK(error_of([] { FallBackWatch(plan_of(2, kTwo), 2, plan_of(0, kFour), {}); }).fault() == Fault::bug);
}

}  // namespace
}  // namespace estrain::plan
