#include "core/engine/device/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/sqrt.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace estrain::device {
namespace {

TEST_CASE("the instruction set is ATen's, and one that the processor has") {
  const std::string capability = at::get_cpu_capability();
  const kernels::Isa isa = aten_isa();
  CHECK((isa == kernels::Isa::avx512) == (capability == "AVX512"));
  CHECK((isa == kernels::Isa::avx2) == (capability == "AVX2"));
  CHECK((isa == kernels::Isa::baseline) == (capability == "DEFAULT" || capability == "NO AVX"));
  CHECK(isa <= kernels::best_isa());
}

TEST_CASE("square roots have the bits of at::sqrt: all exponents, all sizes, values that are no number") {
  const kernels::SquareRoots square_roots = aten_square_roots();
  torch::manual_seed(4);
  const torch::Tensor exponents = torch::randint(-149, 128, {200'003}, torch::kFloat);
  torch::Tensor values = torch::rand({200'003}) * exponents.exp2();
  const float special[] = {0.0f, -0.0f, 1e-45f, 1e-38f, INFINITY, NAN, -1.0f, 3.4028235e38f};
  std::memcpy(values.data_ptr<float>(), special, sizeof special);
  for (const int64_t n : {1, 2, 7, 8, 15, 16, 17, 31, 33, 1000, 2048, 200'003}) {
    const torch::Tensor part = values.slice(0, 0, n).clone();
    const torch::Tensor expected = at::sqrt(part);
    torch::Tensor roots = torch::empty_like(part);
    square_roots(roots.data_ptr<float>(), part.const_data_ptr<float>(), static_cast<size_t>(n));
    CAPTURE(n);
    CHECK(std::memcmp(roots.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()) == 0);
  }
}

TEST_CASE("square roots have the bits of at::sqrt where many values are zeros, wherever these stand") {
  const kernels::SquareRoots square_roots = aten_square_roots();
  torch::manual_seed(5);
  for (const int64_t block : {1, 3, 16, 63, 64, 65, 200, 1024}) {
    for (const int64_t n : {64, 128, 1000, 2048}) {
      const torch::Tensor is_zero =
          torch::rand({(n + block - 1) / block}).lt(0.6).repeat_interleave(block).slice(0, 0, n);
      torch::Tensor values = torch::rand({n}).masked_fill(is_zero, 0.0);
      values[n / 2] = -0.0f;
      const torch::Tensor expected = at::sqrt(values);
      square_roots(values.data_ptr<float>(), values.const_data_ptr<float>(), static_cast<size_t>(n));  // in place
      CAPTURE(block);
      CAPTURE(n);
      CHECK(std::memcmp(values.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()) == 0);
    }
  }
}

TEST_CASE("a processor is described by vendor, name and ATen's capability") {
  const std::string text = describe_processor();
  CHECK(text.find("unknown") == std::string::npos);
  CHECK(text.ends_with(", " + at::get_cpu_capability()));
  CHECK(text == describe_processor());
}

TEST_CASE("the number of threads is set") {
  configure_cpu(1);
  CHECK(at::get_num_threads() == 1);
  CHECK(at::get_num_interop_threads() == 1);
}

}  // namespace
}  // namespace estrain::device
