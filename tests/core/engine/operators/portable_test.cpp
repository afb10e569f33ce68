#include "core/engine/operators/portable.h"

#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/engine/operators/float_tensor.h"
#include "tests/core/engine/operators/operator_cases.h"
#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

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
          at::scatter_reduce(torch::zeros({3}), 0, torch::zeros({2}, torch::kLong), torch::zeros({2}), "prod");
        }).find("products") != std::string::npos);
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
