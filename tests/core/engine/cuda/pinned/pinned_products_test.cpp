#include "core/engine/cuda/pinned/pinned_products.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <cuda_runtime_api.h>

#include "kernels/pinned/product.h"
#include "tests/core/engine/cuda/pinned/run_of_choices.h"

namespace estrain::cuda {
namespace {

TEST_CASE("a product has the values of LibTorch's, for plain, transposed and batched operands") {
  RunOfChoices run;
  algorithms::PinnedAlgorithms algorithms = run.worker();
  PinnedProducts products(algorithms);
  const auto check = [&](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor there_a = on_gpu(a), there_b = on_gpu(b);
    const PinnedProducts::ProductCall call{there_a, there_b};
    REQUIRE(PinnedProducts::is_pinned(call));
    const at::Tensor result = products.compute(call);
    REQUIRE(result.defined());
    CHECK(result.is_contiguous());
    CHECK(at::equal(result.cpu(), at::matmul(a, b)));
  };
  check(whole_numbers({3, 7}), whole_numbers({7, 5}));
  check(whole_numbers({7, 3}).t(), whole_numbers({5, 7}).t());
  check(whole_numbers({4, 3, 7}), whole_numbers({4, 7, 5}));
}

TEST_CASE("an addend is scaled and broadcast; a factor 0 leaves it out, whatever it holds") {
  RunOfChoices run;
  algorithms::PinnedAlgorithms algorithms = run.worker();
  PinnedProducts products(algorithms);
  const at::Tensor a = whole_numbers({3, 7}), b = whole_numbers({7, 5});
  const at::Tensor there_a = on_gpu(a), there_b = on_gpu(b);
  for (const at::Tensor& addend : {whole_numbers({3, 5}), whole_numbers({5}), whole_numbers({3, 1})}) {
    for (const auto& [beta, alpha] : {std::pair(1.0, 1.0), {2.0, -1.0}, {0.0, 3.0}}) {
      CAPTURE(beta);
      CAPTURE(addend.sizes());
      const at::Tensor there = on_gpu(beta == 0 ? at::full_like(addend, INFINITY) : addend);
      const PinnedProducts::ProductCall call{there_a, there_b, &there, beta, alpha};
      REQUIRE(PinnedProducts::is_pinned(call));
      CHECK(at::equal(products.compute(call).cpu(), at::matmul(a, b) * alpha + addend * beta));
    }
  }
}

TEST_CASE("in bf16 a bias is added before the sum is rounded, by every algorithm that may be chosen") {
  using kernels::pinned::ProductProblem;
  // 1 x 256 + 1 x 1 = 257 is halfway between two numbers of bf16, and 257.5 is not.
  const at::Tensor a = on_gpu(at::ones({1, 2}).to(at::kBFloat16));
  const at::Tensor b = on_gpu(at::tensor({256.0f, 1.0f}).to(at::kBFloat16));
  const at::Tensor bias = on_gpu(at::tensor({0.5f}).to(at::kBFloat16));
  ProductProblem product;
  product.element = kernels::pinned::Element::bf16;
  product.m = product.n = 1;
  product.k = 2;
  product.a = {.leading = 2, .stride = 2};
  product.b = {.leading = 1, .stride = 2};
  product.d = {.leading = 1, .stride = 1};
  product.alignment = 2;
  const at::Tensor workspace = on_gpu(at::zeros({1 << 20})), out = on_gpu(at::zeros({1}).to(at::kBFloat16));
  const kernels::pinned::Products library;
  const size_t without_bias = library.candidates(product).size();
  product.addend = ProductProblem::Addend::bias;
  const auto candidates = library.candidates(product);
  CHECK(candidates.size() + 1 == without_bias);
  (void)cudaGetLastError();  // of an algorithm that reports nothing
  for (const std::string& algorithm : candidates) {
    CAPTURE(algorithm);
    library.build(product, algorithm)
        .plan->run({a.data_ptr(), b.data_ptr(), bias.data_ptr(), out.data_ptr()}, workspace.data_ptr(), nullptr);
    CHECK(out.cpu().item<float>() == 258);
  }
}

TEST_CASE("products that LibTorch must compute are not pinned") {
  const at::Tensor a = on_gpu(whole_numbers({3, 7})), b = on_gpu(whole_numbers({7, 5}));
  const auto is_pinned = [](const at::Tensor& left, const at::Tensor& right) {
    return PinnedProducts::is_pinned({left, right});
  };
  CHECK(is_pinned(a, b));
  CHECK(!is_pinned(a, a));                                  // sizes do not match
  CHECK(!is_pinned(a.to(at::kDouble), b.to(at::kDouble)));  // another type
  CHECK(!is_pinned(a, b.to(at::kBFloat16)));                // two types
  CHECK(!is_pinned(a.cpu(), b.cpu()));                      // elsewhere
  CHECK(!is_pinned(a.slice(0, 0, 0), b));                   // without elements
  CHECK(!is_pinned(a.unsqueeze(0), b));                     // other dimensions
  const at::Tensor addend = on_gpu(whole_numbers({4}));
  CHECK(!PinnedProducts::is_pinned({a, b, &addend}));
  CHECK(PinnedProducts::is_pinned({a, b, &addend, 0.0}));
}

TEST_CASE("a run's choice is measured once: other products of the shape, and other workers, find it") {
  RunOfChoices run;
  for (int worker = 0; worker < 2; ++worker) {
    algorithms::PinnedAlgorithms algorithms = run.worker();
    PinnedProducts products(algorithms);
    const at::Tensor a = on_gpu(whole_numbers({3, 7})), b = on_gpu(whole_numbers({7, 5}));
    for (int i = 0; i < 2; ++i) products.compute({a, b});
    CHECK(run.measured == 1);
  }
  algorithms::PinnedAlgorithms algorithms = run.worker();
  const at::Tensor a = on_gpu(whole_numbers({4, 7})), b = on_gpu(whole_numbers({7, 5}));
  PinnedProducts(algorithms).compute({a, b});
  CHECK(run.measured == 2);
}

}  // namespace
}  // namespace estrain::cuda
