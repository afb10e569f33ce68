#include "core/engine/train/evaluation/evaluation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/stage_control.h"
#include "tests/core/engine/train/evaluation/evaluated_worker.h"
#include "tests/error_of.h"

namespace estrain::train {
namespace {

StageOrder one_of(int64_t worker, int64_t workers) {
  StageOrder order;
  order.worker = WorkerRank(worker);
  for (int64_t w = 0; w < workers; ++w) order.ranges.push_back({VirtualRank(w), VirtualRank(w + 1)});
  return order;
}

std::vector<float> losses_of(EvaluatedWorker& job) {
  const comm::EvaluationResults results = job.memory.evaluation();
  return {results.losses, results.losses + job.worker.job().samples().evaluated()};
}

TEST_CASE("the shares of workers are the whole test set, each sample once, with the same bits") {
  EvaluatedWorker job;
  const float unseen = -1;
  const auto forget = [&] { job.evaluate(Step(2), unseen, false); };
  forget();
  REQUIRE(evaluate_share(job.worker.place(), one_of(0, 1), Step(2)));
  const std::vector<float> alone = losses_of(job);
  CHECK(alone.size() % 7 != 0);  // a last batch that is shorter
  for (const float loss : alone) CHECK(loss > 0);
  std::vector<int> times(alone.size(), 0);
  for (int64_t worker = 0; worker < 2; ++worker) {
    forget();
    REQUIRE(evaluate_share(job.worker.place(), one_of(worker, 2), Step(2)));
    const std::vector<float> share = losses_of(job);
    for (size_t i = 0; i < share.size(); ++i) {
      if (share[i] == unseen) continue;
      ++times[i];
      CHECK(std::bit_cast<uint32_t>(share[i]) == std::bit_cast<uint32_t>(alone[i]));
    }
  }
  for (const int count : times) CHECK(count == 1);
}

TEST_CASE("a stage that is given up is left after the batch at hand") {
  EvaluatedWorker job;
  job.evaluate(Step(2), -1, false);
  comm::StageControl(job.memory).abort();
  CHECK_FALSE(evaluate_share(job.worker.place(), one_of(0, 1), Step(2)));
  const std::vector<float> losses = losses_of(job);
  CHECK(losses[6] >= 0);
  CHECK(losses[7] == -1);
}

TEST_CASE("means over the test set; a class without samples has no accuracy") {
  constexpr int64_t kClasses = 500;  // more than there are samples
  EvaluatedWorker job("per_class = true\n", kClasses);
  REQUIRE(evaluate_share(job.worker.place(), one_of(0, 1), Step(2)));
  const comm::EvaluationResults results = job.memory.evaluation();
  const int64_t samples = job.worker.job().samples().evaluated();
  REQUIRE(samples < kClasses);
  for (int64_t i = 0; i < samples; ++i) {
    results.losses[i] = i == 0 ? 5.0f : 0.0f;
    results.correct[i] = 1;
  }
  const EvaluationResult result = result_of_evaluation(job.worker.job(), job.memory);
  CHECK(result.predictions == samples);
  CHECK(result.loss == 5.0 / static_cast<double>(samples));
  CHECK(result.accuracy == 1);
  REQUIRE(result.metrics.size() == kClasses);
  const auto unknown = std::ranges::count_if(result.metrics, [](double accuracy) { return std::isnan(accuracy); });
  CHECK(unknown >= kClasses - samples);
  CHECK(std::ranges::count(result.metrics, 1.0) == kClasses - unknown);
}

TEST_CASE("predictions whose target is ignored count in no mean; where all are, there is none") {
  EvaluatedWorker job("top_k = [2]\n");
  const comm::EvaluationResults results = job.memory.evaluation();
  REQUIRE(results.num_columns == 1);
  REQUIRE(results.samples == 12);
  for (int64_t i = 0; i < results.samples; ++i) {
    const bool counts = i % 3 == 0;
    results.losses[i] = counts ? static_cast<float>(i) : 0;
    results.correct[i] = i == 3 ? 1 : 0;
    results.column(0)[i] = i == 3 || i == 6 ? 1 : 0;
    results.counted[i] = counts ? 1 : 0;
  }
  const EvaluationResult some = result_of_evaluation(job.worker.job(), job.memory);
  CHECK(some.loss == (0 + 3 + 6 + 9) / 4.0);
  CHECK(some.accuracy == 1 / 4.0);
  CHECK(some.predictions == 4);
  CHECK(some.metrics == std::vector<double>{2 / 4.0});
  for (int64_t i = 0; i < results.samples; ++i) results.losses[i] = results.counted[i] = results.correct[i] = 0;
  const EvaluationResult none = result_of_evaluation(job.worker.job(), job.memory);
  CHECK(std::isnan(none.loss));
  CHECK(std::isnan(none.accuracy));
  CHECK(none.predictions == 0);
}

TEST_CASE("an evaluation is on record, of the epoch that its step ended in") {
  EvaluatedWorker job;
  job.evaluate(Step(0), 0.5f, true);
  REQUIRE(publish_evaluation(job.worker.place(), Step(2)));
  CHECK(job.memory.commit().evaluated() == Step(2));
  REQUIRE(job.memory.ring().published() == 1);
  const comm::RecordHead& head = *job.memory.ring().at(0).head;
  CHECK(head.kind == comm::RecordKind::evaluation);
  CHECK(head.step == Step(2));
  CHECK(head.loss == 0.5);
  CHECK(head.accuracy == 1);
}

// Evaluations after steps 2, 4, 6, with the updates between them; how many of them the job survives.
struct Stopping : EvaluatedWorker {
  explicit Stopping(const std::string& section, const std::string& train = "")
      : EvaluatedWorker(train + "[early_stop]\n" + section) {}
  int64_t step = 0;

  // `numbers`: of the user's function.
  bool ends_with(float loss, bool right = false, const std::vector<double>& numbers = {}) {
    for (int update = 0; update < 2; ++update, ++step)
      keep_early_stop(worker.job(), memory, Step(step), state(step), state(step + 1));
    evaluate(Step(step), loss, right);
    std::ranges::copy(numbers, memory.evaluation().numbers);
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

TEST_CASE("a metric of the user's own ends a job, by rising, or by falling where the job says so") {
  const std::string train = "metrics_file = \"m.py:f\"\nmetrics_names = [\"f1\", \"wer\"]\nfalling = [\"wer\"]\n";
  for (const bool falls : {false, true}) {
    CAPTURE(falls);
    Stopping job(std::string("patience = 1\nmetric = \"") + (falls ? "wer" : "f1") + "\"\n", train);
    const auto ends_with = [&](double value) {
      return job.ends_with(9, false, falls ? std::vector{0.0, 1 - value} : std::vector{value, 0.0});
    };
    CHECK_FALSE(ends_with(0.25));
    CHECK_FALSE(ends_with(0.5));
    CHECK(result_of_evaluation(job.worker.job(), job.memory).metrics.back() == (falls ? 0.5 : 0));
    CHECK(job.worker.job().manifest().metric_names.back() == "wer");
    CHECK(ends_with(0.375));
  }
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
