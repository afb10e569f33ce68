#include "core/operators/portable.h"

#include <ATen/ops/lstm_native.h>
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/device/cpu_device.h"
#include "core/operators/float_tensor.h"
#include "core/operators/random_stream.h"
#include "tests/core/operators/operator_cases.h"

namespace estrain::operators {
namespace {

device::CpuDevice cpu;

using torch::Tensor;

double largest_error(const Tensor& got, const Tensor& expected) {
  return (got.to(torch::kDouble) - expected).abs().max().item<double>() / (expected.abs().max().item<double>() + 1e-30);
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST_CASE("results and gradients are those of the same operators in double precision") {
  for (const Case& each : differentiable_cases()) {
    const std::string name = each.name;
    CAPTURE(name);
    const std::vector<Tensor> values = draw(each);
    const std::vector<Tensor> expected = results(each, values, torch::kDouble);
    const std::vector<Tensor> torchs = results(each, values, torch::kFloat);
    const PortableOperators portable(cpu);
    const std::vector<Tensor> got = results(each, values, torch::kFloat);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      REQUIRE(got[i].sizes() == expected[i].sizes());
      CHECK(largest_error(got[i], expected[i]) < 2e-6 + 4 * largest_error(torchs[i], expected[i]));
    }
  }
}

TEST_CASE("strides leave no trace") {
  const PortableOperators portable(cpu);
  const Tensor x = torch::randn({4, 6, 9, 8}), w = torch::randn({5, 6, 3, 3});
  const auto last = at::MemoryFormat::ChannelsLast;
  const std::vector<int64_t> dims = {0, 2, 3};
  CHECK(at::conv2d(x, w).equal(at::conv2d(x.contiguous(last), w.contiguous(last))));
  CHECK(x.sum(dims).equal(x.contiguous(last).sum(dims)));
  const Tensor a = torch::randn({30, 40}), b = torch::randn({40, 20});
  CHECK(a.mm(b).equal(a.t().contiguous().t().mm(b.t().contiguous().t())));
}

TEST_CASE("running statistics of batch norm, and evaluation with them") {
  const Tensor x = torch::randn({8, 5, 6, 6}) * 2 + 1, w = torch::rand({5}), b = torch::rand({5});
  const auto run = [&](torch::Dtype type) {
    Tensor mean = torch::zeros({5}, type), var = torch::ones({5}, type);
    at::batch_norm(x.to(type), w.to(type), b.to(type), mean, var, true, 0.1, 1e-5, false);
    const Tensor y = at::batch_norm(x.to(type), w.to(type), b.to(type), mean, var, false, 0.1, 1e-5, false);
    return std::vector<Tensor>{mean, var, y};
  };
  const std::vector<Tensor> expected = run(torch::kDouble);
  const PortableOperators portable(cpu);
  const std::vector<Tensor> got = run(torch::kFloat);
  for (size_t i = 0; i < got.size(); ++i) CHECK(largest_error(got[i], expected[i]) < 2e-6);
}

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

TEST_CASE("attention's dropout draws the same in both directions") {
  const PortableOperators portable(cpu);
  const auto run = [](double nudge) {
    torch::manual_seed(1);
    const Tensor q = torch::randn({1, 2, 9, 4}), k = torch::randn({1, 2, 9, 4});
    Tensor v = torch::randn({1, 2, 9, 4});
    v[0][1][3][2] += nudge;
    v.requires_grad_(true);
    begin_random_stream(1, 0, 0);
    const Tensor y = at::scaled_dot_product_attention(q, k, v, {}, 0.5, true).sum();
    y.backward();
    return std::pair(y.item<double>(), v.grad()[0][1][3][2].item<double>());
  };
  // The result is linear in the values, so a difference quotient is its derivative.
  CHECK((run(0.5).first - run(0).first) / 0.5 == doctest::Approx(run(0).second).epsilon(1e-4));
}

TEST_CASE("of several values for one place the last one stays, whatever strides and threads are") {
  const PortableOperators portable(cpu);
  const Tensor rows = torch::arange(40000).remainder(7), values = torch::arange(40000, torch::kFloat);
  const int before = at::get_num_threads();
  for (const int threads : {1, 4}) {
    at::set_num_threads(threads);
    Tensor line = torch::zeros({7});
    line.index_put_({rows}, values);
    const Tensor expected = torch::tensor({39998, 39999, 39993, 39994, 39995, 39996, 39997}, torch::kFloat);
    CHECK(line.equal(expected));
    Tensor table = torch::zeros({3, 7});
    table.index_put_({torch::indexing::Slice(), rows}, values.expand({3, 40000}));
    CHECK(table.equal(expected.expand({3, 7})));
  }
  at::set_num_threads(before);
}

TEST_CASE("indices outside of a dimension are refused") {
  const PortableOperators portable(cpu);
  for (const int64_t bad : {7, -8}) {
    Tensor x = torch::zeros({7});
    CHECK_THROWS_AS(x.index_put_({torch::tensor({bad})}, torch::ones({1}), true), c10::IndexError);
    CHECK_THROWS_AS(x.index_add_(0, torch::tensor({bad}), torch::ones({1})), c10::IndexError);
  }
  Tensor x = torch::zeros({7});
  x.index_put_({torch::tensor({-7, 6})}, torch::ones({2}), true);
  CHECK(x.sum().item<float>() == 2);
}

TEST_CASE("equal elements are sorted in the order in which they stood") {
  const PortableOperators portable(cpu);
  const Tensor x = torch::arange(600).remainder(3).to(torch::kFloat);
  const Tensor indices = std::get<1>(x.sort());
  CHECK(indices.narrow(0, 0, 200).equal(torch::arange(0, 600, 3)));
  CHECK(std::get<1>(x.topk(5)).equal(torch::tensor({2, 5, 8, 11, 14})));
  CHECK(std::get<1>(x.sort(0, true)).narrow(0, 0, 200).equal(torch::arange(2, 600, 3)));
}

struct LstmCase {
  int64_t layers, steps, samples, width;
  bool biases, both, batch_first, last_state;
};

using Lstm = std::tuple<Tensor, Tensor, Tensor> (*)(const Tensor&, at::TensorList, at::TensorList, bool, int64_t,
                                                    double, bool, bool, bool);

// Results, and gradients of input, start and parameters.
std::vector<Tensor> lstm_results(const LstmCase& c, Lstm lstm) {
  begin_random_stream(4, 0, 0);
  const int64_t directions = c.both ? 2 : 1, input_width = 7;
  const auto leaf = [](std::vector<int64_t> sizes) { return torch::randn(sizes).requires_grad_(true); };
  const Tensor x = c.batch_first ? leaf({c.samples, c.steps, input_width}) : leaf({c.steps, c.samples, input_width});
  const std::vector<Tensor> start = {leaf({c.layers * directions, c.samples, c.width}),
                                     leaf({c.layers * directions, c.samples, c.width})};
  std::vector<Tensor> parameters;
  for (int64_t i = 0; i < c.layers * directions; ++i) {
    parameters.push_back(leaf({4 * c.width, i < directions ? input_width : directions * c.width}));
    parameters.push_back(leaf({4 * c.width, c.width}));
    for (int k = 0; c.biases && k < 2; ++k) parameters.push_back(leaf({4 * c.width}));
  }
  begin_random_stream(5, 0, 0);
  auto [output, hidden, cell] = lstm(x, start, parameters, c.biases, c.layers, 0.3, true, c.both, c.batch_first);
  Tensor loss = (output * torch::randn(output.sizes())).sum();
  if (c.last_state) loss = loss + (hidden * cell * torch::randn(cell.sizes())).sum();
  loss.backward();
  std::vector<Tensor> all = {output, hidden, cell, x.grad(), start[0].grad(), start[1].grad()};
  for (const Tensor& each : parameters) all.push_back(each.grad());
  return all;
}

TEST_CASE("an LSTM has the bits of the operators that LibTorch composes it of") {
  const PortableOperators portable(cpu);
  for (const LstmCase& each : {LstmCase{1, 1, 1, 1, true, false, false, false},
                               {1, 6, 3, 16, true, false, false, false},
                               {2, 5, 3, 33, true, false, true, false},
                               {2, 4, 2, 70, true, true, false, true},
                               {1, 3, 300, 5, false, false, false, true},
                               {3, 2, 1, 20, false, true, true, false}}) {
    CAPTURE(each.layers);
    CAPTURE(each.width);
    const std::vector<Tensor> expected = lstm_results(each, at::native::lstm), got = lstm_results(each, at::lstm);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(got[i].view(torch::kInt).equal(expected[i].view(torch::kInt)));
    }
  }
}

TEST_CASE("an LSTM that the kernel does not take is composed of what it takes") {
  const PortableOperators portable(cpu);
  const auto zeros = [](std::vector<int64_t> sizes) { return torch::zeros(sizes); };
  const std::vector<Tensor> parameters = {torch::randn({16, 6}), torch::randn({16, 3}), torch::randn({16}),
                                          torch::randn({16}), torch::randn({3, 4})};
  const Tensor projected = std::get<0>(at::lstm(torch::randn({5, 2, 6}), {zeros({1, 2, 3}), zeros({1, 2, 4})},
                                                parameters, true, 1, 0, true, false, false));
  CHECK(projected.sizes() == at::IntArrayRef{5, 2, 3});
}

TEST_CASE("integers, and what is exact, stay LibTorch's") {
  const PortableOperators portable(cpu);
  CHECK(torch::arange(10).sum().item<int64_t>() == 45);
  CHECK((torch::arange(10) + torch::arange(10)).equal(2 * torch::arange(10)));
  CHECK(torch::arange(4).pow(2).equal(torch::tensor({0, 1, 4, 9})));
}

TEST_CASE("other floating-point types are refused by name") {
  const PortableOperators portable(cpu);
  const Tensor x = torch::zeros({3, 3}, torch::kDouble), h = torch::zeros({3, 3}, torch::kBFloat16);
  CHECK(message_of([&] { x.mm(x); }) == "the portable kernels do not cover aten::mm on Double");
  CHECK(message_of([&] { h.exp(); }) == "the portable kernels do not cover aten::exp on BFloat16");
  CHECK(message_of([&] { x.sum(); }) == "the portable kernels do not cover aten::sum on Double");
  CHECK(message_of([] {
          at::conv3d(torch::zeros({1, 2, 3, 3, 3}), torch::zeros({2, 2, 2, 2, 2}));
        }).find("volumes") != std::string::npos);
  CHECK(message_of([] { torch::ones({3}).remainder(2); }) ==
        "the portable kernels do not cover aten::remainder on Float");
}

TEST_CASE("attention and LSTMs refuse gradients of gradients by name") {
  const PortableOperators portable(cpu);
  const auto refusal = [](const Tensor& y, const Tensor& x) {
    return message_of([&] { torch::autograd::grad({y.sum()}, {x}, {}, true, true); });
  };
  const Tensor x = torch::randn({1, 2, 3, 4}, torch::requires_grad());
  CHECK(refusal(at::scaled_dot_product_attention(x, x, x), x) ==
        "the portable kernels do not cover aten::scaled_dot_product_attention with gradients of gradients");
  torch::nn::LSTM lstm(4, 5);
  const Tensor steps = torch::randn({3, 2, 4}, torch::requires_grad());
  CHECK(refusal(std::get<0>(lstm(steps)), steps) ==
        "the portable kernels do not cover aten::lstm with gradients of gradients");
}

TEST_CASE("LibTorch's own kernels are back afterwards") {
  const auto draw_numbers = [] {
    torch::manual_seed(1);
    return torch::rand({20});
  };
  const Tensor before = draw_numbers();
  {
    const PortableOperators portable(cpu);
    CHECK_FALSE(draw_numbers().equal(before));
    CHECK(portable.names().contains("aten::mm"));
  }
  CHECK(draw_numbers().equal(before));
}

TEST_CASE("kernels get as many threads as LibTorch has, and none inside a parallel region") {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  struct Seen {
    std::mutex lock;
    std::set<std::thread::id> threads;
  } seen;
  const kernels::Execution execution = execution_on(torch::zeros({1}));
  CHECK(execution.threads == 2);
  execution.run(
      2,
      [](void* context, int) {
        auto& all = *static_cast<Seen*>(context);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const std::lock_guard lock(all.lock);
        all.threads.insert(std::this_thread::get_id());
      },
      &seen);
  CHECK(seen.threads.size() == 2);
  at::set_num_threads(before);
}

}  // namespace
}  // namespace estrain::operators
