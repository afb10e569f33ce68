#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

using torch::Tensor;

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

}  // namespace
}  // namespace estrain::operators
