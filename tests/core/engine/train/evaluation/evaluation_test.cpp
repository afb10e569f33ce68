#include "core/engine/train/evaluation/evaluation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/state/comm/stage_control.h"
#include "tests/core/engine/train/evaluation/evaluated_worker.h"

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

}  // namespace
}  // namespace estrain::train
