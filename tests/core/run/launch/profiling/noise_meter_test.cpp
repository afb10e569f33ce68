#include "core/run/launch/profiling/noise_meter.h"

#include <doctest/doctest.h>

#include <random>

namespace estrain::launch {
namespace {

// Gradients of a known mean and variance: the ESTs of two workers, each with mini-batches of `batch` samples.
class NoisyJob {
 public:
  NoisyJob(int64_t ests, int64_t batch) : ests_(ests), batch_(batch), workers_(2) {}

  static constexpr size_t kElements = 400;
  double square = 4;           // of the true gradient's norm
  double sample_variance = 0;  // of all elements together

  void step() {
    std::vector<double> mean(kElements);
    const double each = std::sqrt(square / kElements);
    std::normal_distribution<double> noise(0, std::sqrt(sample_variance / (kElements * static_cast<double>(batch_))));
    for (int64_t est = 0; est < ests_; ++est) {
      for (double& element : mean) {
        const double value = each + (sample_variance > 0 ? noise(random_) : 0);
        workers_[static_cast<size_t>(est % 2)].est_squares += value * value;
        element += value / static_cast<double>(ests_);
      }
    }
    for (size_t i = 0; i < kElements; ++i) workers_[i % 2].mean_squares += mean[i] * mean[i];
    for (NoiseMeter::Worker& worker : workers_) ++worker.steps;
  }
  void observe() { meter.observe(ests_, batch_, workers_); }
  void steps(int n) {
    for (int i = 0; i < n; ++i) step(), observe();
  }
  void new_stage() { workers_.assign(workers_.size(), {}); }
  void change_batch(int64_t batch) { batch_ = batch; }
  std::vector<NoiseMeter::Worker>& workers() { return workers_; }
  NoiseMeter meter;

 private:
  int64_t ests_, batch_;
  std::vector<NoiseMeter::Worker> workers_;
  std::mt19937_64 random_{3};
};

TEST_CASE("the gradient and its noise are told apart, whatever the number of ESTs and their batch") {
  for (const int64_t ests : {2, 8}) {
    for (const int64_t batch : {1, 16}) {
      CAPTURE(ests);
      CAPTURE(batch);
      NoisyJob job(ests, batch);
      job.sample_variance = 240;
      job.steps(3000);
      REQUIRE(job.meter.noise());
      CHECK(job.meter.noise()->square == doctest::Approx(4).epsilon(0.1));
      CHECK(job.meter.noise()->variance == doctest::Approx(240).epsilon(0.02));
      CHECK(job.meter.noise()->scale() == doctest::Approx(60).epsilon(0.1));
    }
  }
}

TEST_CASE("no estimate from few steps, from one EST, or where noise is all there is") {
  NoisyJob few(4, 8);
  few.steps(48);
  CHECK_FALSE(few.meter.noise());
  few.steps(16);
  REQUIRE(few.meter.noise());
  CHECK(few.meter.noise()->steps == 63 / 8 * 8);
  CHECK(few.meter.noise()->scale() == doctest::Approx(0));
  NoisyJob alone(1, 8);
  alone.steps(100);
  CHECK_FALSE(alone.meter.noise());
  NoisyJob lost(4, 8);
  lost.square = 0;
  lost.sample_variance = 1;
  lost.steps(30);
  for (NoiseMeter::Worker& worker : lost.workers()) worker.est_squares += 1000;
  lost.steps(60);
  CHECK_FALSE(lost.meter.noise());
}

TEST_CASE("stages and changes of the batch are gone through; other hosts' means are not counted twice") {
  NoisyJob job(4, 8);
  job.sample_variance = 240;
  job.steps(1000);
  job.new_stage();
  job.change_batch(32);
  job.steps(1000);
  CHECK(job.meter.noise()->steps > 1900);
  CHECK(job.meter.noise()->scale() == doctest::Approx(60).epsilon(0.1));

  NoisyJob hosts(4, 8);
  hosts.sample_variance = 240;
  hosts.workers().push_back({.is_here = false, .steps = 0, .est_squares = 0, .mean_squares = 0});
  for (int i = 0; i < 1000; ++i) {
    hosts.step();
    ++hosts.workers()[2].mean_squares;
    hosts.observe();
  }
  CHECK(hosts.meter.noise()->scale() == doctest::Approx(60).epsilon(0.1));
}

}  // namespace
}  // namespace estrain::launch
