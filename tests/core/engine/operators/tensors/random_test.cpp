#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <utility>
#include <vector>

#include "core/engine/operators/random_stream.h"
#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

TEST_CASE("a random number depends on seed, virtual rank, step and call") {
  const PortableOperators portable(cpu);
  const auto numbers = [](uint64_t seed, uint32_t rank, uint64_t step, int skipped = 0) {
    begin_random_stream(seed, rank, step);
    for (int i = 0; i < skipped; ++i) torch::rand({3});
    return torch::rand({100});
  };
  CHECK(numbers(1, 2, 3).equal(numbers(1, 2, 3)));
  for (const Tensor& other : {numbers(2, 2, 3), numbers(1, 3, 3), numbers(1, 2, 4), numbers(1, 2, 3, 1)}) {
    CHECK_FALSE(other.equal(numbers(1, 2, 3)));
  }
  const auto from_generator = [](uint64_t seed) { return torch::rand({50}, at::detail::createCPUGenerator(seed)); };
  CHECK(from_generator(5).equal(from_generator(5)));
  CHECK_FALSE(from_generator(5).equal(from_generator(6)));
}

// The way of gradient checkpointing: the forward pass once more, from the generator's state before the first.
std::pair<Tensor, Tensor> twice_from_one_state(const std::function<Tensor()>& draw) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state().clone();
  const Tensor first = draw(), after = generator.get_state().clone();
  generator.set_state(before);
  const Tensor again = draw();
  CHECK(generator.get_state().equal(after));
  return {first, again};
}

TEST_CASE("what is computed again from a generator's state draws the same again") {
  const PortableOperators portable(cpu);
  begin_est_stream(3, 7);
  const Tensor x = torch::ones({1, 2, 40, 8});
  const std::vector<std::function<Tensor()>> draws = {
      [&] { return at::dropout(x, 0.5, true); },
      [&] { return at::dropout(at::dropout(x, 0.5, true), 0.5, true); },
      [&] { return at::scaled_dot_product_attention(x, x, x, {}, 0.5); },
      [&] { return torch::rand({40}); },
      [&] { return torch::randperm(40); },
  };
  for (const auto& draw : draws) {
    const auto [first, again] = twice_from_one_state(draw);
    CHECK(first.equal(again));
    CHECK_FALSE(first.equal(draw()));
  }
  torch::manual_seed(1);
  const Tensor numbers = torch::rand({40});
  torch::manual_seed(1);
  begin_est_stream(4, 7);
  CHECK_FALSE(torch::rand({40}).equal(numbers));
}

TEST_CASE("the gradient of a part that is computed again in the backward pass is that of the forward pass") {
  const PortableOperators portable(cpu);
  struct Checkpointed : torch::autograd::Function<Checkpointed> {
    static Tensor layer(const Tensor& x) { return at::dropout(at::dropout(x, 0.5, true).square(), 0.25, true); }
    static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
      context->save_for_backward({x, at::detail::getDefaultCPUGenerator().get_state().clone()});
      return layer(x);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& gradients) {
      const auto saved = context->get_saved_variables();
      at::Generator generator = at::detail::getDefaultCPUGenerator();
      const Tensor before = generator.get_state().clone();
      generator.set_state(saved[1]);
      const at::AutoGradMode on(true);
      const Tensor x = saved[0].detach().requires_grad_(true);
      const Tensor y = layer(x);
      generator.set_state(before);
      return torch::autograd::grad({y}, {x}, gradients);
    }
  };
  const Tensor values = torch::rand({500}) + 1;
  const auto run = [&](bool again) {
    torch::manual_seed(5);
    begin_est_stream(0, 0);
    const Tensor x = values.clone().requires_grad_(true);
    const Tensor y = again ? Checkpointed::apply(x) : Checkpointed::layer(x);
    at::dropout(y, 0.5, true).sum().backward();
    return x.grad();
  };
  CHECK(run(true).equal(run(false)));
}

TEST_CASE("evaluation and practice leave the EST's generator alone") {
  const PortableOperators portable(cpu);
  begin_random_stream(1, evaluation_stream, 0);
  const Tensor before = at::detail::getDefaultCPUGenerator().get_state().clone();
  const Tensor first = torch::rand({20});
  CHECK_FALSE(torch::rand({20}).equal(first));
  CHECK(at::detail::getDefaultCPUGenerator().get_state().equal(before));
}

TEST_CASE("dropout keeps, scales and passes gradients on alike") {
  const PortableOperators portable(cpu);
  begin_random_stream(1, 0, 0);
  const Tensor x = torch::ones({10000}).requires_grad_(true);
  const Tensor y = at::dropout(x, 0.25, true);
  y.sum().backward();
  CHECK(y.equal(x.grad()));
  const double kept = y.gt(0).sum().item<double>() / 10000;
  CHECK(kept == doctest::Approx(0.75).epsilon(0.03));
  CHECK(y.max().item<float>() == doctest::Approx(1 / 0.75));
  CHECK(at::dropout(x, 0.25, false).equal(x));
}

}  // namespace
}  // namespace estrain::operators
