#include "core/engine/model/layers/initializer.h"

#include <doctest/doctest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "core/engine/model/layers/layers.h"
#include "tests/core/engine/model/same_bits.h"
#include "tests/core/engine/model/sample_jobs.h"

namespace estrain::model {
namespace {

using torch::Tensor;

// The next number of a generator that these layers drew from.
template <typename Build>
Tensor next_after(Build&& build) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  Initializer init = Initializer::draw(generator);
  build(init);
  return torch::rand({4}, generator);
}

// The layers as the C++ frontend of PyTorch has them, drawn from the same seed.
template <typename Build>
Tensor next_after_torch(Build&& build) {
  torch::manual_seed(5);
  build();
  return torch::rand({4});
}

TEST_CASE("layers draw the weights that PyTorch draws, and as many numbers") {
  const auto check = [](const Tensor& weight, const Tensor& bias, const Tensor& torchs_weight,
                        const Tensor& torchs_bias) {
    CHECK(same_bits(weight, torchs_weight));
    CHECK(bias.defined() == torchs_bias.defined());
    if (bias.defined()) CHECK(same_bits(bias, torchs_bias));
  };
  Tensor weight, bias;
  const auto keep = [&](const auto& layer) {
    weight = layer.weight.detach();
    bias = layer.bias.defined() ? layer.bias.detach() : Tensor();
  };
  const Tensor linear = next_after([&](Initializer& init) { keep(Linear(init, 7, 5)); });
  CHECK(linear.equal(next_after_torch([&] {
    torch::nn::Linear layer(7, 5);
    check(weight, bias, layer->weight.detach(), layer->bias.detach());
  })));
  for (const bool biased : {true, false}) {
    const Tensor convolution = next_after(
        [&](Initializer& init) { keep(Conv2d(init, {.inputs = 3, .outputs = 4, .kernel = 3, .with_bias = biased})); });
    CHECK(convolution.equal(next_after_torch([&] {
      torch::nn::Conv2d layer(torch::nn::Conv2dOptions(3, 4, 3).bias(biased));
      check(weight, bias, layer->weight.detach(), biased ? layer->bias.detach() : Tensor());
    })));
  }
  const Tensor table = next_after([&](Initializer& init) { weight = Embedding(init, 9, 4).weight.detach(); });
  CHECK(table.equal(next_after_torch([&] {
    torch::nn::Embedding layer(9, 4);
    CHECK(same_bits(weight, layer->weight.detach()));
  })));
}

TEST_CASE("a tied layer shares its weight, has no bias, and draws what its own weight would have taken") {
  const Tensor table = torch::ones({9, 4});
  const auto tied = [&](Initializer& init) {
    const Linear layer(init, table);
    CHECK(layer.weight.is_same(table));
    CHECK_FALSE(layer.bias.defined());
  };
  const Tensor after = next_after(tied);
  CHECK(table.equal(torch::ones({9, 4})));
  CHECK(after.equal(next_after([](Initializer& init) { Linear(init, 4, 9, Linear::Bias::without); })));
  CHECK_FALSE(after.equal(next_after([](Initializer&) {})));
}

TEST_CASE("for the fan-out, normal numbers of the outputs that use one input") {
  Initializer init = seeded(3);
  const Tensor weight = init.allocate({200, 10, 3, 3});
  init.kaiming_normal_fan_out(weight);
  CHECK(weight.std().item<double>() == doctest::Approx(std::sqrt(2.0 / (200 * 9))).epsilon(0.03));
}

TEST_CASE("an initializer that skips writes nothing") {
  Initializer init = Initializer::skip();
  const Tensor kept = torch::full({3, 4}, 7.0f);
  init.fill(kept, 1);
  init.uniform(kept, 0, 1);
  init.normal(kept, 1);
  init.torch_default(kept, torch::Tensor());
  CHECK(kept.equal(torch::full({3, 4}, 7.0f)));
}

}  // namespace
}  // namespace estrain::model
