#include "core/run/launch/profiling/speed_meter.h"

#include <doctest/doctest.h>

#include "tests/durations.h"

namespace estrain::launch {
namespace {

// A stage after step 100 on two workers with 6 and 2 ESTs.
class MeteredStage {
 public:
  MeteredStage() { meter.begin(100); }
  // One step: milliseconds per mini-batch of both, and of the exchange.
  bool step(int64_t first, int64_t second, int64_t exchange) {
    workers_[0].computing_ns += 6 * first * kMs;
    workers_[0].reading_ns += 6 * reading * kMs;
    workers_[1].computing_ns += 2 * second * kMs;
    workers_[0].mini_batches += 6;
    workers_[1].mini_batches += 2;
    now_ += (std::max(6 * first, 2 * second) + exchange) * kMs;
    return meter.observe(++step_, now_, evaluated, workers_);
  }
  int64_t evaluated = -1;
  int64_t reading = 0;  // milliseconds of the first worker's mini-batches that wait for data
  void pause(int64_t milliseconds) { now_ += milliseconds * kMs; }
  SpeedMeter meter;

 private:
  std::vector<SpeedMeter::Worker> workers_ = {{7, "cpu", 6}, {9, "cpu", 2}};
  int64_t step_ = 100, now_ = 5'000 * kMs;
};

TEST_CASE("step, mini-batch and exchange times of a stage, without its cold first steps") {
  MeteredStage stage;
  CHECK(stage.meter.stage().step_seconds() == 0);
  stage.step(500, 500, 0);
  stage.step(500, 500, 0);
  for (int i = 0; i < 100; ++i) stage.step(10, 30, 5);
  const SpeedMeter::Span& span = stage.meter.stage();
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

}  // namespace
}  // namespace estrain::launch
