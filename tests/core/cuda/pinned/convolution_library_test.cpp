#include "core/cuda/pinned/convolution_library.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/cuda/simulated.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;

constexpr pinned::Pass kPasses[] = {pinned::Pass::forward, pinned::Pass::data, pinned::Pass::filter};

pinned::Convolution small_convolution(pinned::Pass pass) {
  pinned::Convolution c;
  c.pass = pass;
  c.batch = 2;
  c.channels_in = 4;
  c.channels_out = 6;
  c.groups = 2;
  c.height = {.size = 9, .filter = 3, .stride = 2, .padding = 1, .dilation = 1};
  c.width = {.size = 8, .filter = 2, .stride = 1, .padding = 0, .dilation = 2};
  return c;
}

TEST_CASE("the portable kernels are candidates in float32 without TF32, behind cuDNN's") {
  for (const pinned::Pass pass : kPasses) {
    pinned::Convolution convolution = small_convolution(pass);
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
