#include <doctest/doctest.h>

#include <cmath>

#include "core/planning/simulate/worlds/pollux_job.h"

namespace estrain::simulate {
namespace {

// Three epochs of 100 iterations at batch 12. One device, 1 s a step of 4 to 12 samples.
PolluxApplication small_application() {
  PolluxApplication app("bert", {4, 48, 12, 48, 3, false});
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    app.add_validation(12, epoch, {100 * static_cast<double>(epoch + 1), 100, 1, 1});
  app.finish("t.csv");
  return app;
}

constexpr StepTimes kSecond{1, 0};

TEST_CASE("an epoch that a job has been in is foretold with its noise, later ones with that of the last") {
  const PolluxApplication app = small_application();
  Learnt learnt(app, Learnt::By::all_jobs);
  learnt.observe({1, 1, 12}, kSecond);
  learnt.observe({1, 1, 6}, kSecond);
  learnt.observe(0, {1, 0});  // larger batches gain nothing
  const double slow = learnt.best(1, 1, 0).speed;
  CHECK(learnt.seconds_left(1, 1, 0, 0) == doctest::Approx(300 / slow));
  learnt.observe(1, {0, 1});  // the gain is the batch
  const double fast = learnt.best(1, 1, 1).speed;
  CHECK(fast == doctest::Approx(2 * slow).epsilon(0.05));  // 48 samples take two rounds on one device
  CHECK(learnt.best(1, 1, 0).speed == slow);
  CHECK(learnt.best(1, 1, 2).speed == fast);
  CHECK(learnt.seconds_left(1, 1, 0, 50) == doctest::Approx(50 / slow + 200 / fast));
  learnt.observe(1, {1, 0});  // another job finds it otherwise
  CHECK(learnt.seconds_left(1, 1, 0, 50) == doctest::Approx(250 / slow));
}

TEST_CASE("jobs together know a measured placement exactly, one alone has the model's") {
  const PolluxApplication app = small_application();
  Learnt alone(app, Learnt::By::one_job), together(app, Learnt::By::all_jobs);
  for (Learnt* learnt : {&alone, &together}) {
    CHECK(learnt->model().is_empty());
    learnt->observe({1, 1, 12}, kSecond);
    learnt->observe({1, 2, 6}, {2, 1});
    learnt->observe({1, 3, 4}, {8, 7});  // far from what fits two and four
    learnt->observe({1, 4, 4}, {2, 1});
    learnt->observe(0, {1, 0});
  }
  const double exact = 1 / 8.0;
  CHECK(together.best(1, 3, 0).speed == doctest::Approx(exact).epsilon(0.01));
  CHECK(std::abs(alone.best(1, 3, 0).speed / exact - 1) > 0.1);
}

}  // namespace
}  // namespace estrain::simulate
