#include <doctest/doctest.h>
#include <torch/types.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/engine/device/cpu.h"
#include "core/engine/operators/portable.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

// A tensor of these sizes within a larger one, its dimensions in any order in memory.
Tensor laid_out(std::mt19937& engine, const std::vector<int64_t>& sizes) {
  const size_t rank = sizes.size();
  std::vector<int64_t> order(rank), memory(rank), back(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = static_cast<int64_t>(d);
  if (engine() % 3 != 0) std::shuffle(order.begin(), order.end() - (engine() % 2 == 0 ? 1 : 0), engine);
  for (size_t d = 0; d < rank; ++d) {
    memory[d] = sizes[static_cast<size_t>(order[d])] + (engine() % 3 == 0 ? 3 : 0);
    back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  }
  Tensor x = torch::randn(memory).permute(back);
  for (size_t d = 0; d < rank; ++d)
    x = x.narrow(static_cast<int64_t>(d), x.size(static_cast<int64_t>(d)) - sizes[d], sizes[d]);
  return x;
}

// Element by element.
void copy_plainly(const Tensor& to, const Tensor& from) {
  for (int64_t i = 0; i < to.numel(); ++i) {
    int64_t rest = i, target = 0, source = 0;
    for (int64_t d = to.dim() - 1; d >= 0; --d) {
      target += rest % to.size(d) * to.stride(d);
      source += rest % to.size(d) * from.stride(d);
      rest /= to.size(d);
    }
    to.mutable_data_ptr<float>()[target] = from.const_data_ptr<float>()[source];
  }
}

Tensor whole_memory(const Tensor& x) {
  return x.as_strided({static_cast<int64_t>(x.storage().nbytes() / sizeof(float))}, {1}, 0);
}

TEST_CASE("copies between any strides move every element, and touch nothing else") {
  std::mt19937 engine(5);
  device::CpuDevice processor;
  const PortableOperators portable(processor);
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    std::vector<int64_t> sizes;
    for (size_t d = engine() % 6 + 1; d > 0; --d)
      sizes.push_back(std::vector<int64_t>{1, 2, 3, 5, 8, 24}[engine() % 6]);
    if (engine() % 8 == 0) sizes.back() = 131;
    Tensor from = laid_out(engine, sizes), to = laid_out(engine, sizes);
    if (engine() % 5 == 0) from = from.narrow(0, 0, 1).expand(sizes);
    const Tensor memory = whole_memory(to).clone();
    const Tensor expected = memory.as_strided(to.sizes(), to.strides(), to.storage_offset());
    copy_plainly(expected, from);
    to.copy_(from);
    CHECK(whole_memory(to).equal(memory));
  }
}

TEST_CASE("copies within one tensor, of other types, broadcast, negated or of one element stay LibTorch's") {
  device::CpuDevice processor;
  const PortableOperators portable(processor);
  Tensor square = torch::arange(16, torch::kFloat).view({4, 4});
  CHECK_THROWS_AS(square.copy_(square.t()), c10::Error);
  square.narrow(0, 0, 2).copy_(square.narrow(0, 2, 2));
  CHECK(square.narrow(0, 0, 2).equal(torch::arange(8, 16, torch::kFloat).view({2, 4})));
  CHECK(torch::empty({2, 3}).copy_(torch::arange(3)).equal(torch::tensor({{0.f, 1.f, 2.f}, {0.f, 1.f, 2.f}})));
  CHECK(torch::empty({2, 2}).copy_(torch::full({2}, 0.5, torch::kDouble)).equal(torch::full({2, 2}, 0.5)));
  CHECK(torch::empty({}).copy_(torch::tensor(2.f)).item<float>() == 2);
  CHECK(torch::empty({0, 3}).copy_(torch::empty({0, 3})).numel() == 0);
  CHECK(torch::_neg_view(torch::ones({2, 3})).contiguous().equal(torch::full({2, 3}, -1.f)));
  const Tensor x = torch::randn({4, 6}).requires_grad_(true);
  x.t().contiguous().square().sum().backward();
  CHECK(x.grad().equal(2 * x.detach()));
}

}  // namespace
}  // namespace estrain::operators
