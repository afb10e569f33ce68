#include "core/engine/model/class_scores.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::model {
namespace {

TEST_CASE("the target among the k most likely classes, counted by sample; and its class") {
  const torch::Tensor scores = torch::tensor({0.1f, 0.9f, 0.5f, 0.9f, 0.1f, 0.5f, 0.2f, 0.3f, 0.4f, 1.0f, 2.0f, 3.0f});
  const torch::Tensor target = torch::tensor({1, 2, 0, -100}, torch::kLong);
  const auto columns = [&](const MetricsWanted& wanted, int64_t samples) {
    return evaluation_of_classes(wanted, scores.view({4, 3}), target, torch::zeros({4}), samples).columns;
  };
  const auto by_sample = columns({.top_k = {1, 2, 9}}, 2);
  REQUIRE(by_sample.size() == 3);
  CHECK(by_sample[0].equal(torch::tensor({1.0f, 0.0f})));
  CHECK(by_sample[1].equal(torch::tensor({2.0f, 0.0f})));
  CHECK(by_sample[2].equal(torch::tensor({2.0f, 1.0f})));  // -100 is no class
  const auto classes = columns({.top_k = {1}, .target_class = true}, 4);
  REQUIRE(classes.size() == 2);
  CHECK(classes[1].equal(torch::tensor({1.0f, 2.0f, 0.0f, -100.0f})));
  CHECK(columns({}, 4).empty());
  CHECK(error_of([&] { columns({.target_class = true}, 2); }).fault() == Fault::spec);
}

TEST_CASE("a prediction whose target is ignored is neither right nor counted") {
  const torch::Tensor scores = torch::tensor({0.1f, 0.9f, 0.9f, 0.1f, 0.3f, 0.2f, 0.4f, 0.6f, 0.8f, 0.1f, 1.0f, 2.0f});
  const torch::Tensor target = torch::tensor({1, -100, 0, 0, -100, -100}, torch::kLong);
  const torch::Tensor losses = torch::tensor({4.0f, 0.0f, 1.0f, 2.0f, 0.0f, 0.0f});
  const EvaluatedBatch evaluation = evaluation_of_classes({}, scores.view({6, 2}), target, losses, 3);
  CHECK(evaluation.losses.equal(torch::tensor({2.0f, 1.5f, 0.0f})));
  CHECK(evaluation.correct.equal(torch::tensor({1, 1, 0}, torch::kLong)));
  CHECK(evaluation.counted.equal(torch::tensor({1, 2, 0}, torch::kLong)));
}

TEST_CASE("the weight of a prediction is that of its target's class; an ignored target has none") {
  const torch::Tensor target = torch::tensor({1, -100, 0, 2, -100, -100}, torch::kLong);
  const torch::Tensor weights = torch::tensor({0.5f, 2.0f, 4.0f});
  CHECK(weights_of_targets(target, weights).equal(torch::tensor({2.0f, 0.0f, 0.5f, 4.0f, 0.0f, 0.0f})));
  CHECK(total_weight(target, weights).item<float>() == 6.5f);
  CHECK(total_weight(target, {}).item<int64_t>() == 3);
  const EvaluatedBatch evaluation = evaluation_of_classes({.top_k = {1}, .target_weight = true, .outputs = {"more"}},
                                                          torch::zeros({6, 3}), target, torch::zeros({6}), 3, weights);
  REQUIRE(evaluation.columns.size() == 2);
  CHECK(evaluation.columns[1].equal(torch::tensor({1.0f, 2.25f, 0.0f})));
}

}  // namespace
}  // namespace estrain::model
