#include "core/engine/operators/deterministic.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "core/engine/operators/scan.h"
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

// Returns [outputs, inputs]: the weights of LibTorch's GPU kernel of linear upsampling.
at::Tensor linear_weights(int64_t outputs, int64_t inputs, double scale) {
  at::Tensor weights = at::zeros({outputs, inputs});
  for (int64_t i = 0; i < outputs; ++i) {
    const double from = std::max(0.0, (static_cast<double>(i) + 0.5) / scale - 0.5);
    const int64_t low = static_cast<int64_t>(from), high = std::min(low + 1, inputs - 1);
    weights[i][low] += 1 - (from - static_cast<double>(low));
    weights[i][high] += from - static_cast<double>(low);
  }
  return weights;
}

TEST_CASE("a side that stays equal takes its scale, as on GPUs") {
  const DeterministicOperators composed(cpu);
  const at::Tensor rows = linear_weights(8, 4, 2), columns = linear_weights(6, 6, 1.3), gradient = at::randn({8, 6});
  const at::Tensor expected = rows.t().matmul(gradient).matmul(columns);
  const at::Tensor found =
      at::upsample_bilinear2d_backward(gradient.view({1, 1, 8, 6}), {8, 6}, {1, 1, 4, 6}, false, 2.0, 1.3);
  CHECK(at::allclose(found.view({4, 6}), expected, 1e-4, 1e-5));
  const at::Tensor volume = at::upsample_trilinear3d_backward(gradient.view({1, 1, 1, 8, 6}), {1, 8, 6},
                                                              {1, 1, 1, 4, 6}, false, 1.0, 2.0, 1.3);
  CHECK(at::allclose(volume.view({4, 6}), expected, 1e-4, 1e-5));
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

using OfTwo = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& y)>;

// The gradients of a weighted sum of the results.
std::vector<at::Tensor> gradients_of_two(const OfTwo& function, const at::Tensor& x, const at::Tensor& y) {
  const std::vector<at::Tensor> leaves = {x.detach().requires_grad_(), y.detach().requires_grad_()};
  const at::Tensor result = function(leaves[0], leaves[1]);
  result.mul(at::arange(1, result.numel() + 1).view(result.sizes())).sum().backward();
  return {leaves[0].grad(), leaves[1].grad()};
}

TEST_CASE("autograd differentiates composed operators as LibTorch's") {
  at::manual_seed(3);
  const at::Tensor x = at::rand({4, 5}).add(0.5), y = at::rand({7, 5}).add(0.5);
  const at::Tensor rows = at::randint(4, {7}, at::kLong), places = rows.unsqueeze(1).expand({7, 5}).contiguous();
  std::vector<OfTwo> functions;
  for (const char* reduce : {"prod", "amax", "amin", "mean"}) {
    for (const bool includes : {false, true}) {
      functions.emplace_back([=](const at::Tensor& a, const at::Tensor& b) {
        return at::scatter_reduce(a, 0, places, b, reduce, includes);
      });
      functions.emplace_back(
          [=](const at::Tensor& a, const at::Tensor& b) { return at::index_reduce(a, 0, rows, b, reduce, includes); });
    }
  }
  functions.emplace_back([](const at::Tensor& a, const at::Tensor& b) {
    return at::cumprod(a.reshape({-1}), 0).sum().add(at::logcumsumexp(b.reshape({1, -1}), 1)).view({-1});
  });
  functions.emplace_back([](const at::Tensor& a, const at::Tensor& b) {
    return std::get<0>(at::kthvalue(a, 3, 0)).mul(std::get<0>(at::nanmedian(b, 0)));
  });
  functions.emplace_back([](const at::Tensor& a, const at::Tensor& b) {
    return at::grid_sampler_2d(a.view({1, 1, 4, 5}), b.view({-1}).slice(0, 0, 34).view({1, 17, 1, 2}).sub(1), 2, 2,
                               true);
  });
  std::vector<std::vector<at::Tensor>> expected;
  for (const OfTwo& function : functions) expected.push_back(gradients_of_two(function, x, y));
  const DeterministicOperators composed(cpu);
  for (size_t i = 0; i < functions.size(); ++i) {
    CAPTURE(i);
    const std::vector<at::Tensor> found = gradients_of_two(functions[i], x, y),
                                  again = gradients_of_two(functions[i], x, y);
    for (size_t k = 0; k < found.size(); ++k) {
      CHECK(at::allclose(found[k], expected[i][k], 1e-4, 1e-5));
      CHECK(at::equal(found[k], again[k]));
    }
  }
}

TEST_CASE("of equal elements the first has the index") {
  const DeterministicOperators composed(cpu);
  const at::Tensor x = at::tensor({2.0f, 1.0f, 3.0f, 1.0f, 2.0f, 1.0f});
  CHECK(std::get<1>(at::kthvalue(x, 2)).item<int64_t>() == 3);  // the second of the stable order
  CHECK(std::get<1>(at::kthvalue(x, 1)).item<int64_t>() == 1);
  CHECK(std::get<1>(at::median(x, 0)).item<int64_t>() == 5);
  CHECK(std::get<1>(at::nanmedian(x, 0)).item<int64_t>() == 5);
}

TEST_CASE("an equal place takes the sources in their order, whatever the order of the other places") {
  const DeterministicOperators composed(cpu);
  const at::Tensor values = at::randn({1000}), index = at::zeros({1000}, at::kLong);
  const at::Tensor alone = at::ones({1}).scatter_reduce(0, index, values.mul(1.7), "prod");
  const at::Tensor order = at::stack({at::zeros({1000}, at::kLong), at::arange(1, 1001)}, 1).reshape({-1});
  const at::Tensor mixed = at::stack({values.mul(1.7), at::randn({1000})}, 1).reshape({-1});
  CHECK(at::equal(at::ones({1001}).scatter_reduce(0, order, mixed, "prod")[0], alone[0]));
  CHECK(at::equal(at::ones({1}).index_reduce(0, index, values.mul(1.7), "prod"), alone));
  CHECK_THROWS(at::ones({2}).scatter_reduce(0, at::full({1}, 2, at::kLong), at::ones({1}), "prod"));
}

TEST_CASE("a line without elements is scanned") {
  const DeterministicOperators composed(cpu);
  for (const at::Tensor& empty : {at::empty({0}), at::empty({0, 3}), at::empty({2, 0, 1})}) {
    for (int64_t dim = 0; dim < empty.dim(); ++dim) {
      CHECK(at::cumprod(empty, dim).sizes() == empty.sizes());
      CHECK(at::logcumsumexp(empty, dim).sizes() == empty.sizes());
    }
  }
}

TEST_CASE("index_reduce refuses a source of other sizes, as LibTorch does") {
  const DeterministicOperators composed(cpu);
  const at::Tensor self = at::ones({4, 3}), index = at::zeros({2}, at::kLong);
  CHECK(self.index_reduce(0, index, at::full({2, 3}, 2), "prod")[0][0].item<float>() == 4);
  CHECK_THROWS(self.index_reduce(0, index, at::full({2, 1}, 2), "prod"));
  CHECK_THROWS(self.index_reduce(0, index, at::full({2}, 2), "prod"));
  CHECK_THROWS(self.index_reduce(-1, index, at::full({1, 2}, 2), "prod"));
}

TEST_CASE("zeros of both signs have one maximum") {
  const DeterministicOperators composed(cpu);
  const at::Tensor zeros = at::tensor({0.0f, -0.0f});
  for (const at::Tensor& values : {zeros, zeros.flip(0)}) {
    const at::Tensor found = at::full({1}, -1.0f).scatter_reduce(0, at::zeros({2}, at::kLong), values, "amax");
    CHECK(std::signbit(found.item<float>()) == std::signbit(at::maximum(values[0], values[1]).item<float>()));
  }
}

// Returns how a GPU computes the call of the operator `name` in `work`.
OnGpu on_gpu_in(const std::string& name, const std::function<void()>& work) {
  const std::set<std::string> as_a_whole = {"aten::" + name};
  for (const OperatorUse& use : scan({.replaced = &as_a_whole, .layer = {}}, work))
    if (use.name == "aten::" + name) return use.on_gpu;
  FAIL(name << " was not called");
  return {};
}

TEST_CASE("how GPUs compute a call depends on the overload and the arguments") {
  const at::Tensor x = at::rand({6}), index = at::zeros({6}, at::kLong), pairs = at::rand({2, 3});
  const auto check = [](const std::string& name, OnGpu expected, const std::function<void()>& work) {
    CAPTURE(name);
    CHECK(std::string(to_string(on_gpu_in(name, work))) == to_string(expected));
  };
  check("mul.Tensor", OnGpu::repeatable, [&] { at::mul(x, x); });
  for (const auto& [reduce, expected] : {std::pair{"prod", OnGpu::composed},
                                         {"amax", OnGpu::composed},
                                         {"mean", OnGpu::repeatable},
                                         {"sum", OnGpu::repeatable}})
    check("scatter_reduce.two", expected, [&, name = reduce] { x.scatter_reduce(0, index, x, name); });
  check("scatter_reduce_.two", OnGpu::composed, [&] { x.clone().scatter_reduce_(0, index, x, "prod"); });
  check("scatter.reduce", OnGpu::composed, [&] { x.scatter(0, index, x, "multiply"); });
  check("scatter.reduce", OnGpu::repeatable, [&] { x.scatter(0, index, x, "add"); });
  check("scatter.value_reduce", OnGpu::repeatable, [&] { x.scatter(0, index, 2, "multiply"); });
  check("scatter.src", OnGpu::repeatable, [&] { x.scatter(0, index, x); });
  check("index_reduce_", OnGpu::composed, [&] { x.clone().index_reduce_(0, index, x, "amin"); });
  check("median", OnGpu::repeatable, [&] { at::median(x); });
  check("nanmedian", OnGpu::repeatable, [&] { at::nanmedian(x); });
  check("nanmedian.dim_values", OnGpu::composed, [&] { at::nanmedian(x, 0); });
  check("kthvalue.values", OnGpu::composed, [&] { at::kthvalue(x, 2); });
  check("histc", OnGpu::composed, [&] { at::histc(x); });
  check("bincount", OnGpu::repeatable, [&] { at::bincount(index); });
  check("bincount", OnGpu::composed, [&] { at::bincount(index, x); });
  check("cumprod", OnGpu::composed, [&] { at::cumprod(x, 0); });
  check("cumprod", OnGpu::repeatable, [&] { at::cumprod(pairs, 0); });
  check("cumsum", OnGpu::repeatable, [&] { at::cumsum(x, 0); });
  check("_logcumsumexp", OnGpu::composed, [&] { at::logcumsumexp(x, 0); });
  for (const auto& [type, expected] : {std::pair{at::kFloat, OnGpu::composed}, {at::kDouble, OnGpu::raises}}) {
    const at::Tensor logits = at::rand({7, 1, 5}, type).requires_grad_();
    check("_ctc_loss_backward", expected, [&] {
      at::ctc_loss(logits.log_softmax(2), at::ones({1, 2}, at::kLong), at::IntArrayRef{7}, at::IntArrayRef{2})
          .backward();
    });
  }
  const at::Tensor wide = pairs.to(at::kDouble), image = at::rand({1, 2, 4, 4}), filter = at::rand({2, 1, 3, 3});
  check("mm", OnGpu::repeatable, [&] { at::mm(pairs, pairs.t()); });
  check("mm", OnGpu::unpinned, [&] { at::mm(wide, wide.t()); });
  check("matmul", OnGpu::repeatable, [&] { at::matmul(pairs, pairs.t()); });
  check("matmul", OnGpu::unpinned, [&] { at::matmul(pairs, x.slice(0, 0, 3)); });
  check("linear", OnGpu::unpinned, [&] { at::linear(wide, wide); });
  check("dot", OnGpu::unpinned, [&] { at::dot(x, x); });
  check("linalg_inv_ex", OnGpu::unpinned, [&] { at::linalg_inv_ex(at::eye(3)); });
  check("linalg_vector_norm", OnGpu::repeatable, [&] { at::linalg_vector_norm(pairs, 2); });
  check("linalg_cross", OnGpu::repeatable, [&] { at::linalg_cross(pairs, pairs); });
  check("_fft_r2c", OnGpu::unpinned, [&] { at::_fft_r2c(x, 0, 0, true); });
  const std::set<std::string> convolutions = {"aten::convolution", "aten::convolution_backward"};
  for (const auto& [padding, expected] : {std::pair<int64_t, OnGpu>{0, OnGpu::repeatable}, {1, OnGpu::unpinned}}) {
    for (const OperatorUse& use : scan({.replaced = &convolutions, .layer = {}}, [&, p = padding] {
           at::conv_transpose2d(image, filter.clone().requires_grad_(), {}, 1, 0, p, 1, 2).sum().backward();
         }))
      if (convolutions.contains(use.name)) CHECK((use.on_gpu == expected));
  }
  CHECK((on_gpu("mine::put_", {}) == OnGpu::repeatable));
}

}  // namespace
}  // namespace estrain::operators
