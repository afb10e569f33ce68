#include <ATen/ops/lstm_native.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <tuple>
#include <vector>

#include "core/engine/operators/random_stream.h"
#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

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

}  // namespace
}  // namespace estrain::operators
