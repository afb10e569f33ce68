#include "core/engine/train/evaluation/early_stop.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/engine/train/evaluation/learning_rates.h"
#include "tests/core/engine/train/evaluation/evaluated_worker.h"
#include "tests/error_of.h"

namespace estrain::train {
namespace {

// Evaluations after steps 2, 4, 6, with the updates between them; how many of them the job survives.
struct Stopping : EvaluatedWorker {
  explicit Stopping(const std::string& section) : EvaluatedWorker("[early_stop]\n" + section) {}
  int64_t step = 0;

  bool ends_with(float loss, bool right = false) {
    for (int update = 0; update < 2; ++update, ++step)
      keep_early_stop(worker.job(), memory, Step(step), state(step), state(step + 1));
    evaluate(Step(step), loss, right);
    return ends_early(worker.job(), memory, Step(step), state(step));
  }
};

TEST_CASE("a job ends when as many evaluations in a row as its patience are no better than the best") {
  Stopping job("patience = 2\n");
  CHECK_FALSE(job.ends_with(5));
  CHECK_FALSE(job.ends_with(5));  // no better: 1
  CHECK_FALSE(job.ends_with(4));  // better
  CHECK_FALSE(job.ends_with(4.5));
  CHECK(job.ends_with(4));  // as good as the best is no better
  Stopping at_once("patience = 1\n");
  CHECK_FALSE(at_once.ends_with(5));
  CHECK_FALSE(at_once.ends_with(4));
  CHECK(at_once.ends_with(4.5));
}

TEST_CASE("NaN is no better than anything, and a number is better than the beginning") {
  Stopping job("patience = 2\n");
  CHECK_FALSE(job.ends_with(std::nanf("")));
  CHECK_FALSE(job.ends_with(1000));
  CHECK_FALSE(job.ends_with(std::nanf("")));
  CHECK(job.ends_with(std::nanf("")));
}

TEST_CASE("what is better by min_delta or less is no better, for a loss that falls and an accuracy that grows") {
  Stopping loss("patience = 2\nmin_delta = 0.5\n");
  CHECK_FALSE(loss.ends_with(4));
  CHECK_FALSE(loss.ends_with(3.5));
  CHECK_FALSE(loss.ends_with(3.25));
  CHECK_FALSE(loss.ends_with(3));
  CHECK(loss.ends_with(2.75));
  Stopping accuracy("patience = 2\nmetric = \"accuracy\"\n");
  CHECK_FALSE(accuracy.ends_with(1, true));
  CHECK_FALSE(accuracy.ends_with(0, true));
  CHECK(accuracy.ends_with(0, false));
}

TEST_CASE("only evaluated steps end a job, and none is trained further before its evaluation") {
  Stopping job("patience = 1\n");
  CHECK_FALSE(ends_early(job.worker.job(), job.memory, Step(1), job.state(1)));
  const Error error = error_of([&] { ends_early(job.worker.job(), job.memory, Step(2), job.state(2)); });
  CHECK(error.fault() == Fault::bug);
  CHECK(error.message() == "step 2 is trained further before it was evaluated");
  EvaluatedWorker patient;  // no [early_stop]
  CHECK_FALSE(ends_early(patient.worker.job(), patient.memory, Step(2), patient.state(2)));
}

}  // namespace
}  // namespace estrain::train
