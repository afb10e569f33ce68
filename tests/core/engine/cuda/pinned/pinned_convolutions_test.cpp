#include "core/engine/cuda/pinned/pinned_convolutions.h"

#include <ATen/ATen.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/equal.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/engine/cuda/pinned/pinned_operators.h"
#include "tests/core/engine/cuda/pinned/run_of_choices.h"
#include "tests/core/engine/cuda/small_convolution.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;

struct Case {
  std::vector<int64_t> input, weight, stride, padding, dilation;
  int64_t groups = 1;
  std::vector<int64_t> output_padding = {};  // of a transposed convolution

  bool is_transposed() const { return !output_padding.empty(); }
  device::ConvolutionArguments arguments() const {
    return {stride, padding, dilation, groups, is_transposed(), output_padding};
  }
};

const Case kCases[] = {
    {{2, 3, 8, 9}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 4, 9, 8}, {6, 2, 3, 2}, {2, 1}, {0, 1}, {1, 2}, 2},
    {{2, 3, 8, 9}, {4, 3, 3, 3}, {2}, {1}, {1}},  // one number for both axes
    {{2, 3, 20}, {5, 3, 4}, {3}, {2}, {1}},       // one dimension
    {{2, 3, 5, 4, 6}, {4, 3, 3, 2, 1}, {2, 1, 1}, {1, 0, 2}, {1, 2, 1}},
    {{2, 4, 3, 4, 5}, {2, 2, 1, 2, 3}, {1}, {1}, {1}, 2},
    {{2, 4, 5, 4}, {4, 3, 3, 2}, {2, 1}, {1, 0}, {1, 2}, 1, {1, 0}},
    {{2, 4, 5, 4}, {4, 3, 3, 3}, {2}, {1}, {1}, 2, {0}},
    {{2, 4, 9}, {4, 3, 4}, {3}, {1}, {1}, 1, {2}},
    {{2, 4, 3, 2, 4}, {4, 2, 2, 3, 2}, {2, 1, 3}, {0, 1, 1}, {1}, 1, {1, 0, 2}},
};

TEST_CASE("a convolution and its gradients have the values of LibTorch's") {
  RunOfChoices run;
  algorithms::PinnedAlgorithms algorithms = run.worker();
  PinnedConvolutions convolutions(algorithms);
  for (const Case& one : kCases) {
    CAPTURE(one.input);
    CAPTURE(one.stride);
    const at::Tensor x = whole_numbers(one.input), w = whole_numbers(one.weight);
    const std::vector<int64_t> none(one.input.size() - 2, 0);
    const std::vector<int64_t>& padding = one.is_transposed() ? one.output_padding : none;
    const at::Tensor y =
        at::convolution(x, w, {}, one.stride, one.padding, one.dilation, one.is_transposed(), padding, one.groups);
    const at::Tensor dy = whole_numbers(y.sizes());
    const auto [dx, dw, db] =
        at::convolution_backward(dy, x, w, at::OptionalIntArrayRef(), one.stride, one.padding, one.dilation,
                                 one.is_transposed(), padding, one.groups, {true, true, false});
    const at::Tensor there_x = on_gpu(x), there_w = on_gpu(w), there_dy = on_gpu(dy);
    REQUIRE(PinnedConvolutions::is_pinned(there_x, there_w, there_dy, one.arguments()));
    CHECK(at::equal(convolutions.forward(there_x, there_w, one.arguments()).cpu(), y));
    CHECK(at::equal(convolutions.input_gradient(there_dy, there_x, there_w, one.arguments()).cpu(), dx));
    CHECK(at::equal(convolutions.weight_gradient(there_dy, there_x, there_w, one.arguments()).cpu(), dw));
  }
}

TEST_CASE("convolutions that LibTorch must compute are not pinned") {
  const Case& plain = kCases[0];
  const at::Tensor x = on_gpu(whole_numbers(plain.input)), w = on_gpu(whole_numbers(plain.weight));
  const auto is_pinned = [&](const Case& one) { return PinnedConvolutions::is_pinned(x, w, {}, one.arguments()); };
  CHECK(is_pinned(plain));
  Case changed = plain;
  changed.padding = {-1, 1};
  CHECK(!is_pinned(changed));
  changed = plain;
  changed.stride = {1, 0};
  CHECK(!is_pinned(changed));
  changed = plain;
  changed.dilation = {1, 9};  // the filter does not fit
  CHECK(!is_pinned(changed));
  changed = plain;
  changed.groups = 2;
  CHECK(!is_pinned(changed));
  Case transposed{{2, 4, 8, 9}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {2, 2}, 1, {0, 0}};
  const at::Tensor narrow = on_gpu(whole_numbers(transposed.input));
  CHECK(PinnedConvolutions::is_pinned(narrow, w, {}, transposed.arguments()));
  transposed.output_padding = {1, 0};  // a stride or more
  CHECK(!PinnedConvolutions::is_pinned(narrow, w, {}, transposed.arguments()));
  CHECK(!PinnedConvolutions::is_pinned(x.to(at::kDouble), w.to(at::kDouble), {}, plain.arguments()));
  CHECK(!PinnedConvolutions::is_pinned(x, w.cpu(), {}, plain.arguments()));
  CHECK(!PinnedConvolutions::is_pinned(x, w, x, plain.arguments()));  // no gradient of the output has this shape
}

// Returns the results of forward and backward pass: of a transposed convolution and of a convolution of volumes.
std::vector<at::Tensor> layers(const std::function<at::Tensor(const at::Tensor&)>& to) {
  const auto leaf = [&](at::IntArrayRef sizes) { return to(whole_numbers(sizes)).requires_grad_(); };
  const at::Tensor x = leaf({2, 4, 5, 4}), w = leaf({4, 3, 3, 2}), bias = leaf({3});
  const at::Tensor volume = leaf({2, 3, 4, 5, 6}), filter = leaf({2, 3, 2, 3, 2}), shift = leaf({2});
  const at::Tensor y = at::conv_transpose2d(x, w, bias, {2, 1}, {1, 0}, {1, 0}, 1, {1, 2});
  const at::Tensor z = at::conv3d(volume, filter, shift, {1, 2, 1}, {1, 0, 1});
  at::add(y.mul(y).sum(), z.mul(z).sum()).backward();
  return {y, z, x.grad(), w.grad(), bias.grad(), volume.grad(), filter.grad(), shift.grad()};
}

TEST_CASE("LibTorch's layers take recorded algorithms for transposed convolutions and volumes") {
  const ScratchFolder folder;
  const std::string choices = folder / "algorithms.jsonl";
  at::manual_seed(5);
  const std::vector<at::Tensor> expected = layers([](const at::Tensor& tensor) { return tensor; });
  const PinnedOperators pinned_operators({.run = choices}, "a simulated GPU");
  at::manual_seed(5);
  const std::vector<at::Tensor> found = layers(on_gpu);
  for (size_t i = 0; i < found.size(); ++i) CHECK(at::equal(found[i].cpu(), expected[i]));
  const std::string recorded = read_file(choices);
  for (const char* words : {"2x3x10x6", "2x3x4x5x6"}) {
    CAPTURE(words);
    CHECK(recorded.find(words) != std::string::npos);
  }
  CHECK(std::ranges::count(recorded, '\n') >= 6);
}

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
          "the portable kernel computes images in float32");
  }
  (void)cudaGetLastError();  // of an engine that reports nothing
}

}  // namespace
}  // namespace estrain::cuda
