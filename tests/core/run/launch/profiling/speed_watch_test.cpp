#include <doctest/doctest.h>

#include "core/run/launch/profiling/speed_meter.h"
#include "tests/durations.h"

namespace estrain::launch {
namespace {

// Workers of one stage whose mini-batches take the given times; steps take 60 ms.
class Job {
 public:
  explicit Job(std::vector<std::string> kinds) {
    for (size_t i = 0; i < kinds.size(); ++i) paces_.push_back({static_cast<int64_t>(i), kinds[i], 2});
  }
  // One step; milliseconds per mini-batch of each worker.
  std::vector<SpeedWatch::Speed> step(const std::vector<int64_t>& milliseconds) {
    ++step_;
    now_ += 60 * kMs;
    for (size_t i = 0; i < paces_.size(); ++i) {
      paces_[i].computing_ns += 2 * milliseconds[i] * kMs;
      paces_[i].mini_batches += 2;
      paces_[i].reading_ns += 2 * reading_ * kMs;
    }
    return watch_.observe(step_, now_, paces_);
  }
  // Steps until a worker's verdict changes; -1: none within 100.
  int until_change(const std::vector<int64_t>& milliseconds, std::vector<SpeedWatch::Speed>* changes) {
    for (int steps = 1; steps <= 100; ++steps) {
      *changes = step(milliseconds);
      if (!changes->empty()) return steps;
    }
    return -1;
  }
  void new_stage() {
    for (SpeedMeter::Worker& pace : paces_) pace.computing_ns = pace.mini_batches = 0;
  }
  void wait_for_data(int64_t milliseconds) { reading_ = milliseconds; }  // of each mini-batch
  const SpeedWatch& watch() const { return watch_; }
  int64_t steps() const { return step_; }

 private:
  SpeedWatch watch_;
  std::vector<SpeedMeter::Worker> paces_;
  int64_t step_ = 0, now_ = 0, reading_ = 0;
};

TEST_CASE("a worker that takes twice as long as the others is named within 20 steps, and no longer once it is faster") {
  Job job({"cpu", "cpu", "cpu"});
  std::vector<SpeedWatch::Speed> changes;
  CHECK(job.until_change({10, 10, 11}, &changes) == -1);
  const int64_t before = job.steps();
  const int taken = job.until_change({10, 20, 11}, &changes);
  REQUIRE(taken > 0);
  CHECK(taken <= 20);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].worker == 1);
  CHECK(changes[0].slow);
  CHECK(changes[0].factor == doctest::Approx(20 / 10.5).epsilon(0.01));
  CHECK(changes[0].seconds == doctest::Approx(0.020));
  CHECK(changes[0].usual_seconds == doctest::Approx(0.0105));
  CHECK(changes[0].since_step >= before - 5);
  CHECK(changes[0].since_step <= before + 5);
  REQUIRE(job.watch().find(1));
  CHECK(job.watch().find(1)->slow);
  CHECK_FALSE(job.watch().find(0)->slow);
  CHECK(job.watch().find(0)->seconds == doctest::Approx(0.010));
  CHECK_FALSE(job.watch().find(3));
  CHECK(job.until_change({10, 12, 11}, &changes) > 0);
  REQUIRE(changes.size() == 1);
  CHECK_FALSE(changes[0].slow);
  CHECK_FALSE(job.watch().find(1)->slow);
}

TEST_CASE("the part of a mini-batch that waits for data is known") {
  Job job({"cpu", "cpu"});
  std::vector<SpeedWatch::Speed> changes;
  CHECK(job.until_change({10, 10}, &changes) == -1);
  CHECK(job.watch().find(1)->reading_share() == 0);
  job.wait_for_data(4);
  CHECK(job.until_change({10, 10}, &changes) == -1);
  CHECK(job.watch().find(1)->reading_seconds == doctest::Approx(0.004));
  CHECK(job.watch().find(1)->reading_share() == doctest::Approx(0.4));
}

TEST_CASE("of two workers the slow one is named, not the one that waits for it") {
  Job job({"cpu", "cpu"});
  std::vector<SpeedWatch::Speed> changes;
  CHECK(job.until_change({30, 12}, &changes) > 0);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].worker == 0);
}

TEST_CASE("a device of another kind is no measure") {
  Job job({"cpu:avx512", "cpu:sse"});
  std::vector<SpeedWatch::Speed> changes;
  CHECK(job.until_change({10, 40}, &changes) == -1);
  SUBCASE("its own past is") {
    CHECK(job.until_change({10, 90}, &changes) > 0);
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].worker == 1);
    CHECK(changes[0].factor == doctest::Approx(90.0 / 40));
  }
}

TEST_CASE("one slow window is no slow worker") {
  Job job({"cpu", "cpu"});
  std::vector<SpeedWatch::Speed> changes;
  CHECK(job.until_change({10, 10}, &changes) == -1);
  for (int i = 0; i < 4; ++i) CHECK(job.step({10, 25}).empty());
  CHECK(job.until_change({10, 10}, &changes) == -1);
}

TEST_CASE("a new stage starts counting anew") {
  Job job({"cpu", "cpu"});
  std::vector<SpeedWatch::Speed> changes;
  for (int i = 0; i < 7; ++i) job.step({10, 25});
  job.new_stage();
  CHECK(job.step({10, 10}).empty());
  CHECK(job.until_change({10, 10}, &changes) == -1);
}

}  // namespace
}  // namespace estrain::launch
