#include "core/engine/cuda/pinned/convolution_library.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/engine/cuda/small_convolution.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;

TEST_CASE("the portable kernels are candidates in float32 without TF32, behind cuDNN's") {
  for (const pinned::Pass pass : kPasses) {
    pinned::ConvolutionProblem convolution = small_convolution(pass);
    const ConvolutionLibrary library;
    const std::vector<std::string> exact = library.candidates(convolution);
    CHECK(exact.size() > 1);
    CHECK(exact.back() == ConvolutionLibrary::kPortable);
    CHECK(std::ranges::is_sorted(exact));
    convolution.math = pinned::Math::tf32;
    CHECK(std::ranges::count(library.candidates(convolution), ConvolutionLibrary::kPortable) == 0);
    CHECK(!library.build(convolution, ConvolutionLibrary::kPortable).plan);
    convolution.math = pinned::Math::exact;
    convolution.element = pinned::Element::bf16;
    CHECK(std::ranges::count(library.candidates(convolution), ConvolutionLibrary::kPortable) == 0);
    CHECK(library.build(convolution, ConvolutionLibrary::kPortable).refusal ==
          "the portable kernel computes in float32");
  }
}

}  // namespace
}  // namespace estrain::cuda
