#include <doctest/doctest.h>
#include <torch/types.h>

#include <vector>

#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

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

}  // namespace
}  // namespace estrain::operators
