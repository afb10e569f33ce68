#include "core/engine/device/captured_passes.h"

#include <doctest/doctest.h>
#include <torch/types.h>

#include <stdexcept>

namespace estrain::device {
namespace {

using Tensors = CapturedPasses::Tensors;

struct Counts {
  int beside = 0, captures = 0, replays = 0;
};

// Captures on the CPU: a capture computes nothing, a replay runs the captured work.
class Recorder : public CaptureBackend {
 public:
  Recorder(Counts& counts, bool fails) : counts_(counts), fails_(fails) {}

  void beside(const std::function<void()>& work) override {
    ++counts_.beside;
    work();
  }
  std::unique_ptr<Capture> capture(const std::function<void()>& work) override {
    ++counts_.captures;
    if (fails_) throw std::runtime_error("operation not permitted when stream is capturing");
    return std::make_unique<Replay>(counts_, work);
  }

 private:
  struct Replay : Capture {
    Replay(Counts& counts_of_all, std::function<void()> captured) : counts(counts_of_all), work(std::move(captured)) {}
    void replay() override {
      ++counts.replays;
      work();
    }
    Counts& counts;
    std::function<void()> work;
  };

  Counts& counts_;
  bool fails_;
};

struct Fixture {
  Counts counts;
  CapturedPasses passes;
  explicit Fixture(bool fails = false) : passes(std::make_unique<Recorder>(counts, fails)) {}
};

// Returns twice the first input, in the same memory at every call, and an undefined tensor.
class Doubling {
 public:
  Tensors operator()(const Tensors& inputs) {
    inputs_of_last_call = inputs;
    if (!twice_.defined() || twice_.sizes() != inputs[0].sizes()) twice_ = torch::empty_like(inputs[0]);
    twice_.copy_(inputs[0]).mul_(2);
    return {twice_, torch::Tensor()};
  }
  Tensors inputs_of_last_call;

 private:
  torch::Tensor twice_;
};

torch::Tensor filled(float value, int64_t size = 3) { return torch::full({size}, value); }

TEST_CASE("the first mini-batches run as ever, one is captured, and from there on it is replayed with new inputs") {
  Fixture made;
  Doubling doubling;
  const auto pass = [&](const Tensors& inputs) { return doubling(inputs); };
  std::vector<torch::Tensor> results;
  for (int call = 0; call < CapturedPasses::warm_runs + 4; ++call) {
    const torch::Tensor input = filled(static_cast<float>(call)), labels = torch::full({2}, call, torch::kLong);
    const auto outputs = made.passes.run({input, labels}, pass);
    REQUIRE(outputs.has_value());
    REQUIRE(outputs->size() == 2);
    CHECK_FALSE((*outputs)[1].defined());
    CHECK((*outputs)[0].equal(filled(2 * static_cast<float>(call))));
    CHECK(doubling.inputs_of_last_call[0].is_same(input) == (call < CapturedPasses::warm_runs));
    CHECK(doubling.inputs_of_last_call[1].equal(labels));
    if (call >= CapturedPasses::warm_runs) results.push_back((*outputs)[0]);
  }
  CHECK(made.counts.captures == 1);
  CHECK(made.counts.replays == 4);
  CHECK(made.counts.beside == CapturedPasses::warm_runs + 4);
  for (size_t i = 0; i < results.size(); ++i)  // inputs are unchanged
    CHECK(results[i].equal(filled(2 * static_cast<float>(CapturedPasses::warm_runs + static_cast<int>(i)))));
}

TEST_CASE("each shape and type is captured by itself, up to a number; further ones run as ever") {
  Fixture made;
  const auto pass = [](const Tensors& inputs) { return Tensors{inputs[0].clone()}; };
  const auto often = [&](const torch::Tensor& input) {
    bool all = true;
    for (int call = 0; call <= CapturedPasses::warm_runs; ++call)
      all = made.passes.run({input}, pass).has_value() && all;
    return all;
  };
  CHECK(often(filled(1, 3)));
  CHECK(often(filled(1, 4)));
  CHECK(often(torch::ones({3}, torch::kLong)));
  CHECK(often(torch::ones({1, 3})));
  CHECK(made.counts.captures == 4);
  CHECK_FALSE(made.passes.run({filled(1, 5)}, pass).has_value());
  CHECK(often(filled(1, 4)));
  CHECK(made.counts.captures == 4);
}

TEST_CASE("where a pass cannot be captured, none is from then on, and nothing is thrown") {
  Fixture made(/*fails=*/true);
  int runs = 0;
  const auto pass = [&](const Tensors& inputs) {
    ++runs;
    return Tensors{inputs[0].clone()};
  };
  for (int call = 0; call < CapturedPasses::warm_runs; ++call) CHECK(made.passes.run({filled(1)}, pass).has_value());
  CHECK_FALSE(made.passes.run({filled(1)}, pass).has_value());
  CHECK_FALSE(made.passes.run({filled(1)}, pass).has_value());
  CHECK_FALSE(made.passes.run({filled(1, 2)}, pass).has_value());
  CHECK(made.counts.captures == 1);
  CHECK(runs == CapturedPasses::warm_runs);
}

TEST_CASE("what a pass throws that runs is the caller's to know") {
  Fixture made;
  const auto pass = [](const Tensors&) -> Tensors { throw std::runtime_error("a label is wrong"); };
  CHECK_THROWS_WITH(made.passes.run({filled(1)}, pass), "a label is wrong");
}

}  // namespace
}  // namespace estrain::device
