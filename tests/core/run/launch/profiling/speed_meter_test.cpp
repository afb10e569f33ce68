#include "core/run/launch/profiling/speed_meter.h"

#include <doctest/doctest.h>

namespace estrain::launch {
namespace {

// A stage after step 100 on two workers with 6 and 2 ESTs.
class MeteredStage {
 public:
  MeteredStage() { meter.begin(100); }
  // One step: milliseconds per mini-batch of both, and of the exchange.
  bool step(int64_t first, int64_t second, int64_t exchange) {
    workers_[0].computing += 6 * first * 1ms;
    workers_[0].reading += 6 * reading * 1ms;
    workers_[1].computing += 2 * second * 1ms;
    workers_[0].mini_batches += 6;
    workers_[1].mini_batches += 2;
    now_ += (std::max(6 * first, 2 * second) + exchange) * 1ms;
    return meter.observe(++step_, now_, evaluated, workers_);
  }
  int64_t evaluated = -1;
  int64_t reading = 0;  // milliseconds of the first worker's mini-batches that wait for data
  void pause(int64_t milliseconds) { now_ += milliseconds * 1ms; }
  SpeedMeter meter;

 private:
  std::vector<SpeedMeter::Worker> workers_ = {{7, "cpu", 6}, {9, "cpu", 2}};
  int64_t step_ = 100;
  MonotonicTime now_{5s};
};

TEST_CASE("step, mini-batch and exchange times of a stage, without its cold first steps") {
  MeteredStage stage;
  CHECK(stage.meter.stage().step_seconds() == 0);
  stage.step(500, 500, 0);
  stage.step(500, 500, 0);
  for (int i = 0; i < 100; ++i) stage.step(10, 30, 5);
  const SpeedMeter::MeasuredSteps& span = stage.meter.stage();
  CHECK(span.from_step == 102);
  CHECK(span.to_step == 102 + span.steps);
  CHECK(span.steps >= 90);
  CHECK(span.step_seconds() == doctest::Approx(0.065));
  CHECK(span.workers[0].seconds_per_mini_batch() == doctest::Approx(0.010));
  CHECK(span.workers[1].seconds_per_mini_batch() == doctest::Approx(0.030));
  CHECK(span.exchange_seconds() == doctest::Approx(0.005));
  CHECK(span.workers[1].id == 9);
}

TEST_CASE("the share of the workers' time that waits for data") {
  MeteredStage stage;
  for (int i = 0; i < 50; ++i) stage.step(10, 30, 5);
  CHECK(stage.meter.stage().reading_share() == 0);
  stage.reading = 8;
  for (int i = 0; i < 400; ++i) stage.step(10, 30, 5);
  CHECK(stage.meter.recent().reading_share() == doctest::Approx(48.0 / (60 + 60)));
  CHECK(stage.meter.stage().reading_share() > 0.3);
  CHECK(stage.meter.stage().reading_share() < 0.4);
}

TEST_CASE("what is recent forgets") {
  MeteredStage stage;
  for (int i = 0; i < 200; ++i) stage.step(10, 30, 5);
  for (int i = 0; i < 30; ++i) stage.step(10, 90, 5);
  CHECK(stage.meter.recent().workers[1].seconds_per_mini_batch() == doctest::Approx(0.090));
  CHECK(stage.meter.stage().workers[1].seconds_per_mini_batch() < 0.050);
}

TEST_CASE("windows hold at least five steps and a quarter of a second") {
  MeteredStage slow, fast;
  int slow_windows = 0, fast_windows = 0;
  for (int i = 0; i < 52; ++i) slow_windows += slow.step(100, 100, 0);
  for (int i = 0; i < 503; ++i) fast_windows += fast.step(1, 1, 0);
  CHECK(slow_windows == 10);  // steps 103 to 152
  CHECK(fast_windows == 11);  // 3 s in steps of 6 ms: 252 ms each
}

TEST_CASE("time in which an evaluation ran does not count") {
  MeteredStage stage;
  for (int i = 0; i < 50; ++i) stage.step(10, 10, 0);
  stage.pause(30'000);
  stage.evaluated = 150;
  for (int i = 0; i < 50; ++i) stage.step(10, 10, 0);
  CHECK(stage.meter.stage().step_seconds() == doctest::Approx(0.060));
  CHECK(stage.meter.stage().to_step > 190);
  CHECK(stage.meter.stage().steps < stage.meter.stage().to_step - stage.meter.stage().from_step);
}

TEST_CASE("an interruption does not count") {
  MeteredStage stage;
  for (int i = 0; i < 50; ++i) stage.step(10, 10, 0);
  const int64_t counted = stage.meter.stage().steps;
  for (int i = 0; i < 50; ++i) {
    stage.meter.interrupt();
    stage.step(70, 70, 0);
  }
  CHECK(stage.meter.stage().steps == counted);
  for (int i = 0; i < 50; ++i) stage.step(10, 10, 0);
  CHECK(stage.meter.stage().steps > counted);
  CHECK(stage.meter.stage().step_seconds() == doctest::Approx(0.060).epsilon(0.02));
}

TEST_CASE("another stage begins from nothing") {
  MeteredStage stage;
  for (int i = 0; i < 50; ++i) stage.step(10, 10, 0);
  stage.meter.begin(150);
  CHECK(stage.meter.stage().steps == 0);
  CHECK(stage.meter.recent().steps == 0);
  CHECK(stage.meter.recent().workers.empty());
}

// Workers of one stage whose mini-batches take the given times; steps take 60 ms.
class Job {
 public:
  explicit Job(std::vector<std::string> kinds) {
    for (size_t i = 0; i < kinds.size(); ++i) paces_.push_back({static_cast<int64_t>(i), kinds[i], 2});
  }
  // One step; milliseconds per mini-batch of each worker.
  std::vector<SpeedWatch::Speed> step(const std::vector<int64_t>& milliseconds) {
    ++step_;
    now_ += 60ms;
    for (size_t i = 0; i < paces_.size(); ++i) {
      paces_[i].computing += 2 * milliseconds[i] * 1ms;
      paces_[i].mini_batches += 2;
      paces_[i].reading += 2 * reading_ * 1ms;
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
    for (SpeedMeter::Worker& pace : paces_) {
      pace.computing = 0ns;
      pace.mini_batches = 0;
    }
  }
  void wait_for_data(int64_t milliseconds) { reading_ = milliseconds; }  // of each mini-batch
  const SpeedWatch& watch() const { return watch_; }
  int64_t steps() const { return step_; }

 private:
  SpeedWatch watch_;
  std::vector<SpeedMeter::Worker> paces_;
  int64_t step_ = 0, reading_ = 0;
  MonotonicTime now_;
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
