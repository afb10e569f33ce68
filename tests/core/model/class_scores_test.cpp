#include "core/model/class_scores.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::model {
namespace {

TEST_CASE("the target among the k most likely classes, counted by sample; and its class") {
  const torch::Tensor scores = torch::tensor({0.1f, 0.9f, 0.5f, 0.9f, 0.1f, 0.5f, 0.2f, 0.3f, 0.4f, 1.0f, 2.0f, 3.0f});
  const torch::Tensor target = torch::tensor({1, 2, 0, -100}, torch::kLong);
  const auto columns = [&](const MetricsWanted& wanted, int64_t samples) {
    return class_columns(wanted, scores.view({4, 3}), target, samples);
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

}  // namespace
}  // namespace estrain::model
