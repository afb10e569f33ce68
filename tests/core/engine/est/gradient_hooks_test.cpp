#include "core/engine/est/gradient_hooks.h"

#include <ATen/ops/linear.h>
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "core/engine/device/cpu.h"

namespace estrain::est {
namespace {

// The arguments that a backward pass gave to its sink, by parameter; calls in order.
struct Delivered {
  std::map<size_t, std::vector<float>> gradients;
  std::vector<size_t> absent, calls;

  GradientSink sink(const std::vector<torch::Tensor>& parameters) {
    return [this, &parameters](size_t i, const float* gradient) {
      calls.push_back(i);
      if (gradient == nullptr) return absent.push_back(i);
      gradients[i] = {gradient, gradient + parameters[i].numel()};
    };
  }
};

std::vector<float> values(const torch::Tensor& tensor) {
  const torch::Tensor whole = tensor.contiguous();
  return {whole.const_data_ptr<float>(), whole.const_data_ptr<float>() + whole.numel()};
}

torch::Tensor parameter(torch::IntArrayRef shape) { return torch::randn(shape).requires_grad_(); }

TEST_CASE("every gradient is delivered once, with the bits that .grad would have, and is gone afterwards") {
  torch::manual_seed(0);
  const std::vector<torch::Tensor> parameters = {parameter({4, 3}), parameter({4}), parameter({2, 4})};
  const torch::Tensor input = torch::randn({5, 3});
  const auto loss = [&] {
    return at::linear(torch::relu(at::linear(input, parameters[0], parameters[1])), parameters[2]).square().mean();
  };
  std::vector<std::vector<float>> expected;
  loss().backward();
  for (const torch::Tensor& p : parameters) {
    expected.push_back(values(p.grad()));
    p.mutable_grad().reset();
  }
  device::CpuDevice cpu;
  GradientHooks hooks(parameters, cpu);
  for (int pass = 0; pass < 2; ++pass) {  // gradients do not accumulate
    Delivered delivered;
    hooks.backward(loss(), delivered.sink(parameters));
    CHECK(delivered.calls.size() == 3);
    CHECK(delivered.absent.empty());
    for (size_t i = 0; i < 3; ++i) {
      CHECK(delivered.gradients[i] == expected[i]);
      CHECK_FALSE(parameters[i].grad().defined());
    }
  }
}

TEST_CASE("a parameter that was not reached is reported as absent, after the others") {
  const std::vector<torch::Tensor> parameters = {parameter({2}), parameter({3}), parameter({2})};
  device::CpuDevice cpu;
  GradientHooks hooks(parameters, cpu);
  Delivered delivered;
  hooks.backward((parameters[0] * parameters[2]).sum(), delivered.sink(parameters));
  CHECK(delivered.absent == std::vector<size_t>{1});
  CHECK(delivered.calls.back() == 1);
  CHECK(delivered.gradients[0] == values(parameters[2].detach()));
  Delivered again;
  hooks.backward(parameters[1].sum(), again.sink(parameters));
  CHECK(again.absent == std::vector<size_t>{0, 2});
}

TEST_CASE("gradients that are collected and handed over are those of a backward pass, absent ones included") {
  const std::vector<torch::Tensor> parameters = {parameter({2, 3}), parameter({3}), parameter({2, 3})};
  device::CpuDevice cpu;
  GradientHooks hooks(parameters, cpu);
  const auto loss = [&] { return (parameters[0] * parameters[2]).t().square().sum(); };
  Delivered expected, found;
  hooks.backward(loss(), expected.sink(parameters));
  const std::vector<torch::Tensor> gradients = hooks.collect(loss());
  REQUIRE(gradients.size() == 3);
  CHECK_FALSE(gradients[1].defined());
  CHECK(gradients[0].is_contiguous());
  CHECK_FALSE(parameters[0].grad().defined());
  hooks.hand_over(gradients, found.sink(parameters));
  CHECK(found.gradients == expected.gradients);
  CHECK(found.absent == std::vector<size_t>{1});
  gradients[0].mul_(2);
  Delivered again;
  hooks.hand_over(gradients, again.sink(parameters));
  CHECK(again.gradients[0] != found.gradients[0]);
  CHECK(again.gradients[2] == found.gradients[2]);
}

TEST_CASE("a gradient of zeros is not absent, and -0 stays -0") {
  const std::vector<torch::Tensor> parameters = {parameter({2})};
  device::CpuDevice cpu;
  GradientHooks hooks(parameters, cpu);
  Delivered delivered;
  hooks.backward((parameters[0] * -0.0f).sum(), delivered.sink(parameters));
  CHECK(delivered.absent.empty());
  REQUIRE(delivered.gradients[0].size() == 2);
  for (const float value : delivered.gradients[0]) {
    CHECK(value == 0.0f);
    CHECK(std::signbit(value));
  }
}

TEST_CASE("a parameter that is used several times delivers the whole sum once") {
  const std::vector<torch::Tensor> parameters = {parameter({3})};
  device::CpuDevice cpu;
  GradientHooks hooks(parameters, cpu);
  Delivered delivered;
  hooks.backward((parameters[0] * 2 + parameters[0] * 4).sum() + parameters[0][1], delivered.sink(parameters));
  CHECK(delivered.calls.size() == 1);
  CHECK(delivered.gradients[0] == std::vector<float>{6, 7, 6});
}

TEST_CASE("gradients that are not contiguous are handed over in the parameter's order") {
  const std::vector<torch::Tensor> parameters = {parameter({2, 3})};
  const torch::Tensor weights = torch::tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  device::CpuDevice cpu;
  GradientHooks hooks(parameters, cpu);
  Delivered delivered;
  hooks.backward((parameters[0].t() * weights).sum(), delivered.sink(parameters));
  CHECK(delivered.gradients[0] == std::vector<float>{1, 3, 5, 2, 4, 6});
}

}  // namespace
}  // namespace estrain::est
