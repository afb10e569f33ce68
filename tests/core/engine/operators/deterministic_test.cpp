#include "core/engine/operators/deterministic.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string_view>

#include "tests/core/engine/operators/nondeterministic_cases.h"
#include "tests/core/engine/operators/portable_cpu.h"

namespace estrain::operators {
namespace {

TEST_CASE("composed operators have LibTorch's values") {
  const std::vector<NondeterministicCase> cases = nondeterministic_cases();
  const To stay = [](const at::Tensor& tensor) { return tensor; };
  std::vector<std::vector<at::Tensor>> expected;
  for (const NondeterministicCase& each : cases) {
    at::manual_seed(expected.size());
    expected.push_back(each.call(stay));
  }
  const DeterministicOperators composed(cpu);
  for (size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].name);
    at::manual_seed(i);
    const std::vector<at::Tensor> found = cases[i].call(stay);
    REQUIRE(found.size() == expected[i].size());
    for (size_t k = 0; k < found.size(); ++k) {
      CHECK(found[k].sizes() == expected[i][k].sizes());
      CHECK((found[k].scalar_type() == expected[i][k].scalar_type()));
      CHECK(at::allclose(found[k], expected[i][k], 1e-4, 1e-5, /*equal_nan=*/true));
    }
  }
}

TEST_CASE("gradients in bfloat16 are rounded once") {
  const at::Tensor gradient = at::randn({2, 3, 9, 7});
  const DeterministicOperators composed(cpu);
  const at::Tensor exact =
      at::upsample_bilinear2d_backward(gradient.to(at::kBFloat16).to(at::kFloat), {9, 7}, {2, 3, 4, 5}, false);
  const at::Tensor rounded = at::upsample_bilinear2d_backward(gradient.to(at::kBFloat16), {9, 7}, {2, 3, 4, 5}, false);
  CHECK(at::equal(rounded, exact.to(at::kBFloat16)));
}

// Returns how often `work` calls upsample_linear1d.
int64_t upsamples_in(const std::function<void()>& work) {
  static int64_t calls = 0;
  calls = 0;
  const auto count = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    if (std::string_view(function.name()) == "aten::upsample_linear1d") ++calls;
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count));
  work();
  at::removeCallback(handle);
  return calls;
}

TEST_CASE("weights stay where captured graphs read them, whatever the number of sizes") {
  const DeterministicOperators composed(cpu);
  const auto pass = [](int64_t size) {
    return at::upsample_linear1d_backward(at::ones({1, 1, size}), {size}, {1, 1, 3}, false);
  };
  pass(7);
  CHECK(upsamples_in([&] {
          for (int64_t size = 8; size < 300; ++size) pass(size);
        }) > 256);
  CHECK(upsamples_in([&] { pass(7); }) == 0);
}

TEST_CASE("cases that stay with LibTorch's own kernels") {
  const at::Tensor numbers = at::tensor({0, 3, 3, 1}, at::kLong), table = at::randn({6, 4});
  const auto bags = at::_embedding_bag(table, numbers, at::tensor({0, 2}, at::kLong), false, /*mode=*/0);
  const auto sums = [&] {
    return at::_embedding_bag_dense_backward(at::ones({2, 4}), numbers, at::tensor({0, 0, 1, 1}, at::kLong),
                                             std::get<2>(bags), std::get<3>(bags), 6, false, 0, {});
  };
  const at::Tensor counts = at::bincount(numbers), expected = sums();
  const DeterministicOperators composed(cpu);
  CHECK(at::equal(at::bincount(numbers), counts));
  CHECK((at::bincount(numbers).scalar_type() == at::kLong));
  CHECK((at::bincount(numbers.slice(0, 0, 0), at::ones({0}), 3).scalar_type() == at::kLong));  // with weights, too
  CHECK(at::equal(sums(), expected));
}

TEST_CASE("places that are not numbers take nothing from the input") {
  const DeterministicOperators composed(cpu);
  const at::Tensor nowhere = at::full({1, 2, 2, 2}, std::numeric_limits<double>::quiet_NaN());
  for (const int64_t padding : {0, 1, 2}) {
    const auto gradients = at::grid_sampler_2d_backward(at::ones({1, 3, 2, 2}), at::ones({1, 3, 4, 4}), nowhere, 0,
                                                        padding, false, {true, true});
    CHECK(at::equal(std::get<0>(gradients), at::zeros({1, 3, 4, 4})));
  }
}

TEST_CASE("how GPUs compute an operator") {
  CHECK((on_gpu("aten::mm") == OnGpu::repeatable));
  CHECK((on_gpu("aten::put_") == OnGpu::composed));
  CHECK((on_gpu("aten::median.dim") == OnGpu::composed));
  CHECK((on_gpu("aten::_ctc_loss_backward.Tensor") == OnGpu::composed));
  CHECK((on_gpu("aten::index_reduce_") == OnGpu::raises));
  CHECK((on_gpu("mine::put_") == OnGpu::repeatable));
}

}  // namespace
}  // namespace estrain::operators
