#include "core/engine/train/shared/table_gradients.h"

#include <doctest/doctest.h>
#include <torch/nn/functional/embedding.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "tests/core/engine/train/linear_training.h"

namespace estrain::train {
namespace {

bool are_same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

constexpr int64_t kLarge = 1 << 14, kNarrow = 16;

torch::Tensor leaf(int64_t rows, int64_t width) { return torch::ones({rows, width}).set_requires_grad(true); }
torch::Tensor row_numbers(int64_t count) { return torch::arange(count) * 3; }
torch::Tensor looked_up(const torch::Tensor& table, int64_t count) {
  return torch::nn::functional::embedding(row_numbers(count), table).sum();
}

TEST_CASE("of large tables with few rows looked up, the pass computes no gradient, and the graph is left as it was") {
  const torch::Tensor large = leaf(kLarge, kNarrow), small = leaf(64, kNarrow), crowded = leaf(kLarge, kNarrow),
                      twice = leaf(kLarge, kNarrow), matrix = leaf(kLarge, kNarrow);
  TableGradients tables({large, small, crowded, twice, matrix});
  std::map<size_t, int64_t> taken;
  const auto take = [&](size_t parameter, const GradientFactors& factors) { taken[parameter] += factors.rows(); };
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    const torch::Tensor loss = looked_up(large, 100) + looked_up(small, 10) + looked_up(crowded, kLarge / 4 + 1) +
                               looked_up(twice, 10) + looked_up(twice, 20) + matrix.sum();
    {
      const FactorWatch::Cuts pass = tables.begin_pass(loss, take);
      loss.backward({}, /*retain_graph=*/true);
    }
    CHECK(taken == std::map<size_t, int64_t>{{0, 100}});
    CHECK_FALSE(large.grad().defined());
    for (const torch::Tensor& other : {small, crowded, twice, matrix}) CHECK(other.grad().defined());
    loss.backward();
    CHECK(large.grad().sum().item<float>() == 100 * kNarrow);
    for (const torch::Tensor& table : {large, small, crowded, twice, matrix}) table.mutable_grad().reset();
    taken.clear();
  }
  CHECK_FALSE(tables.is_idle());
}

TEST_CASE("a network without tables is looked through once") {
  const torch::Tensor matrix = leaf(kLarge, kNarrow);
  TableGradients tables({matrix});
  const torch::Tensor loss = matrix.sum();
  CHECK_FALSE(tables.is_idle());
  { const FactorWatch::Cuts pass = tables.begin_pass(loss, nullptr); }
  CHECK(tables.is_idle());
  CHECK(TableGradients({leaf(64, kNarrow)}).is_idle());
}

constexpr int64_t kOfNobody = kLarge - 1;  // no EST looks this row up

// The rows that an EST looks up in a step: some are other ESTs', too. In one step an EST looks up too
// many rows for a gradient by rows.
torch::Tensor rows_of_est(int64_t rank, int64_t step) {
  const int64_t count = rank + 1 == step ? kLarge / 4 + 1 : 40;
  return torch::arange(count) * (rank + 2) % (kOfNobody - 1000) + step * 50;
}

// The first parameter's part of the loss: by an embedding, or by an operator whose gradient is always whole.
Loss table_loss(bool by_embedding, const int64_t& step) {
  return [by_embedding, &step](const TrainingJob& job, int64_t rank, const Reach& reaches) {
    const auto others = [&](int64_t of, size_t parameter) { return parameter != 0 && reaches(of, parameter); };
    if (!reaches(rank, 0)) return loss_of(job, rank, others);
    const torch::Tensor& table = job.network().parameters()[0];
    const torch::Tensor rows = rows_of_est(rank, step);
    const torch::Tensor found =
        by_embedding ? torch::nn::functional::embedding(rows, table) : table.index_select(0, rows);
    return (found * slope_of(found) * static_cast<double>(rank + 1)).sum() + loss_of(job, rank, others);
  };
}

// Steps [first, end) with the table by rows, and the same with whole gradients: requires the same bits after each. In
// the step `unreached` no EST reaches the table, in the next one only the second.
void compare_steps(const std::string& optimizer, const Way& way, int64_t first, int64_t end, int64_t unreached,
                   const std::function<torch::Tensor(torch::Tensor loss, int64_t step)>& change = {}) {
  int64_t step = first;
  const auto loss = [&](bool by_embedding) -> Loss {
    return [&, of_table = table_loss(by_embedding, step)](const TrainingJob& job, int64_t rank, const Reach& reaches) {
      const torch::Tensor found = of_table(job, rank, reaches);
      return change ? change(found, step) : found;
    };
  };
  const char* const more = change ? "nonfinite = \"skip\"\n" : "";
  LinearTraining by_rows(optimizer, way, more, {kLarge, kNarrow}, loss(true));
  LinearTraining whole(optimizer, way, more, {kLarge, kNarrow}, loss(false));
  for (LinearTraining* const training : {&by_rows, &whole}) training->seed_streams();
  for (; step < end; ++step) {
    CAPTURE(step);
    const Reach reaches = [&](int64_t rank, size_t parameter) {
      return parameter != 0 || (step != unreached && (step != unreached + 1 || rank == 1));
    };
    by_rows.step(reaches);
    whole.step(reaches);
    for (const size_t parameter : {0, 1}) {
      CHECK(are_same(by_rows.values(parameter), whole.values(parameter)));
      CHECK(by_rows.is_as_recorded(parameter));
    }
  }
}

TEST_CASE("steps of a large table have the same bits by rows, whichever way the update goes") {
  for (const char* optimizer :
       {"name = \"adamw\"\nlr = 0.1\n", "name = \"adagrad\"\nlr = 0.1\ninitial_accumulator_value = 0.1\n",
        "name = \"sgd\"\nlr = 0.1\n", "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\n",
        "name = \"adagrad\"\nlr = 0.1\nweight_decay = 0.1\n"}) {
    for (const Way& way : kWays) {
      CAPTURE(std::string(optimizer));
      CAPTURE(std::string(way.name));
      compare_steps(optimizer, way, 0, 7, 5);
      // No EST looks up too many rows from the fourth step on.
      compare_steps(optimizer, way, 4, 9, 6);
    }
  }
}

TEST_CASE("a step of a table that is left out because of a NaN leaves no trace") {
  for (const char* optimizer : {"name = \"adagrad\"\nlr = 0.1\n", "name = \"sgd\"\nlr = 0.1\n"}) {
    for (const Way& way : kWays) {
      CAPTURE(std::string(way.name));
      compare_steps(optimizer, way, 4, 10, -1, [](const torch::Tensor& loss, int64_t step) {
        return step == 7 ? loss * std::numeric_limits<float>::quiet_NaN() : loss;
      });
    }
  }
}

TEST_CASE("sums of the rows looked up take memory for these rows alone") {
  for (const bool by_embedding : {true, false}) {
    for (const Way& way : {kWays[0], kWays[2]}) {
      CAPTURE(by_embedding);
      int64_t step = 5;
      LinearTraining training("name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\n", way, "", {kLarge, kNarrow},
                              table_loss(by_embedding, step));
      const ModelPlaces& places = training.job().places().model;
      float& last = training.memory().gradients()[0].values[places.gradient_offset(0) + kOfNobody * kNarrow];
      last = 4711;
      for (; step < 7; ++step) training.step(all);
      CHECK((last == 4711) == by_embedding);
    }
  }
}

// Returns what the step leaves of a value that a row of nobody has in the copy that the step writes.
float left_in_row_of_nobody(const std::string& optimizer, const Way& way, const std::string& more = "",
                            int64_t steps = 7) {
  int64_t step = 0;
  LinearTraining training(optimizer, way, more, {kLarge, kNarrow}, table_loss(true, step));
  for (; step + 1 < steps; ++step) training.step(all);
  const size_t last = kOfNobody * kNarrow;
  training.job().places().model.parameter(training.next_state(), 0)[last] = 4711;
  training.step(all);
  return training.values(0)[last];
}

TEST_CASE("optimizers that rest on zeros write the rows that this step or the step before has looked up") {
  const Way &in_hooks = kWays[0], &clipped = kWays[1], &by_two = kWays[2];
  for (const Way* way : {&in_hooks, &by_two}) {
    CHECK(left_in_row_of_nobody("name = \"adagrad\"\n", *way) == 4711);
    CHECK(left_in_row_of_nobody("name = \"sgd\"\n", *way) == 4711);
    CHECK(left_in_row_of_nobody("name = \"sgd\"\nmomentum = 0.9\n", *way) != 4711);
    CHECK(left_in_row_of_nobody("name = \"sgd\"\nweight_decay = 0.1\n", *way) != 4711);
    CHECK(left_in_row_of_nobody("name = \"adagrad\"\nweight_decay = 0.1\n", *way) != 4711);
    CHECK(left_in_row_of_nobody("name = \"adamw\"\n", *way) != 4711);
    CHECK(left_in_row_of_nobody("name = \"sgd\"\n", *way, "[ema]\ndecay = 0.9\n") != 4711);
    // An EST looks up too many rows in steps 1 to 3.
    for (const int64_t step : {0, 1, 2, 3, 4}) {
      CAPTURE(step);
      CHECK(left_in_row_of_nobody("name = \"sgd\"\n", *way, "", step + 1) != 4711);
    }
  }
  CHECK(left_in_row_of_nobody("name = \"sgd\"\n", clipped) != 4711);
}

TEST_CASE("averages of a table change in all rows") {
  for (const Way& way : kWays) {
    int64_t step = 5;
    LinearTraining training("name = \"sgd\"\nlr = 0.1\n", way, "[ema]\ndecay = 0.9\n", {kLarge, kNarrow},
                            table_loss(true, step));
    for (; step < 8; ++step) training.step(all);
    CHECK(training.is_as_recorded(0));
  }
}

}  // namespace
}  // namespace estrain::train
