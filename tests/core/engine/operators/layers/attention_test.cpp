#include <doctest/doctest.h>
#include <torch/types.h>

#include <utility>

#include "core/engine/operators/random_stream.h"
#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

TEST_CASE("attention's dropout draws the same in both directions") {
  const PortableOperators portable(cpu);
  const auto run = [](double nudge) {
    begin_random_stream(2, 0, 0);
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

}  // namespace
}  // namespace estrain::operators
