#include "core/engine/train/evaluation/learning_rates.h"

#include <doctest/doctest.h>

#include "tests/core/engine/train/evaluation/evaluated_worker.h"
#include "tests/error_of.h"

namespace estrain::train {
namespace {

const std::string kPlateau =
    "[optimizer]\nlr = 1\n[schedule]\nname = \"plateau\"\nmetric = \"loss\"\nfactor = 0.5\npatience = 0\n";

TEST_CASE("the evaluation of a step is taken in by the update that follows it, once") {
  EvaluatedWorker job(kPlateau);
  const auto rate_after = [&](int64_t step) {
    const double rate = learning_rates(job.worker.job(), job.memory, Step(step), job.state(step)).at(0);
    keep_schedule(job.worker.job(), job.memory, Step(step), job.state(step), job.state(step + 1));
    return rate;
  };
  CHECK(rate_after(0) == 1);
  CHECK(rate_after(1) == 1);
  job.evaluate(Step(2), 4, false);
  CHECK(rate_after(2) == 1);
  CHECK(rate_after(3) == 1);
  job.evaluate(Step(4), 4, false);  // no better
  CHECK(rate_after(4) == 0.5);
  CHECK(rate_after(5) == 0.5);
  job.evaluate(Step(6), 3, false);
  CHECK(rate_after(6) == 0.5);
}

TEST_CASE("a rate that waits for an evaluation is not made up") {
  EvaluatedWorker job(kPlateau);
  const auto rates = [&] { learning_rates(job.worker.job(), job.memory, Step(2), job.state(2)); };
  CHECK(error_of(rates).fault() == Fault::bug);
}

TEST_CASE("an evaluation is done again if its results are no longer there and something goes by them") {
  const auto needs = [](EvaluatedWorker& job, int64_t evaluated, int64_t step) {
    job.memory.commit().note_evaluated(Step(evaluated));
    return needs_evaluation(job.worker.job(), job.memory, Step(step));
  };
  EvaluatedWorker plain, plateau(kPlateau), stops("[early_stop]\npatience = 1\n");
  for (EvaluatedWorker* job : {&plain, &plateau, &stops}) {
    CHECK_FALSE(needs(*job, 0, 3));  // after every second step
    CHECK(needs(*job, 2, 4));
    CHECK_FALSE(needs(*job, 4, 4));
  }
  CHECK_FALSE(needs(plain, 6, 4));
  CHECK(needs(plateau, 6, 4));
  CHECK(needs(stops, 6, 4));
}

}  // namespace
}  // namespace estrain::train
