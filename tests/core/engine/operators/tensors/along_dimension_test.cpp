#include <doctest/doctest.h>
#include <torch/types.h>

#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

TEST_CASE("equal elements are sorted in the order in which they stood") {
  const PortableOperators portable(cpu);
  const Tensor x = torch::arange(600).remainder(3).to(torch::kFloat);
  const Tensor indices = std::get<1>(x.sort());
  CHECK(indices.narrow(0, 0, 200).equal(torch::arange(0, 600, 3)));
  CHECK(std::get<1>(x.topk(5)).equal(torch::tensor({2, 5, 8, 11, 14})));
  CHECK(std::get<1>(x.sort(0, true)).narrow(0, 0, 200).equal(torch::arange(2, 600, 3)));
}

}  // namespace
}  // namespace estrain::operators
