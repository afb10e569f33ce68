// The texts of algorithms and the keys of operations. gpu_check tests their execution, which needs a GPU.
#include "kernels/pinned/algorithm.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "kernels/pinned/fields.h"

namespace estrain::kernels::pinned {
namespace {

TEST_CASE("an algorithm of cuBLASLt's is its configuration") {
  const ProductAlgorithm algorithm = {.id = 66,
                                      .tile = 20,
                                      .stages = 35,
                                      .split_k = 4,
                                      .reduction = 2,
                                      .swizzle = 1,
                                      .custom = 4294967295,
                                      .inner = 5,
                                      .cluster = 23};
  CHECK(algorithm.text() ==
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=4294967295 inner=5 cluster=23");
  CHECK(ProductAlgorithm::from_text(algorithm.text()) == algorithm);
  CHECK(ProductAlgorithm{.id = 9} < ProductAlgorithm{.id = 10});
  ProductAlgorithm with_words = algorithm;
  with_words.version = 130101;
  with_words.words = {0x4200000001, 0, 7, 0xffffffffffffffff};
  CHECK(with_words.text() == algorithm.text() + " version=130101 words=4200000001,0,7,ffffffffffffffff,0,0,0,0");
  CHECK(ProductAlgorithm::from_text(with_words.text()) == with_words);
  CHECK_FALSE(with_words == algorithm);
  for (const char* text :
       {"", "id=66", "engine=1 knobs=", "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5",
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23 ",
        "id=066 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23",
        "id= 66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23",
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23 version=130101 words=",
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23 version=130101 "
        "words=0,0,0,0,0,0,0,0",
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23 version=130101 "
        "words=1,2,3,4,5,6,7",
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23 version=130101 "
        "words=1,2,3,4,5,6,7,8,9",
        "id=66 tile=20 stages=35 split_k=4 reduction=2 swizzle=1 custom=0 inner=5 cluster=23 "
        "words=1,2,3,4,5,6,7,0x8"}) {
    CAPTURE(text);
    CHECK_FALSE(ProductAlgorithm::from_text(text));
  }
}

TEST_CASE("an algorithm of cuDNN's is an engine with its knobs") {
  const ConvolutionAlgorithm algorithm = {5, {{2, 7}, {14, -3}}}, plain = {0, {}};
  CHECK(algorithm.text() == "engine=5 knobs=2:7,14:-3");
  CHECK(ConvolutionAlgorithm::from_text(algorithm.text()) == algorithm);
  CHECK(plain.text() == "engine=0 knobs=");
  CHECK(ConvolutionAlgorithm::from_text(plain.text()) == plain);
  CHECK(ConvolutionAlgorithm{9, {{5, 5}}} < ConvolutionAlgorithm{10, {}});
  for (const char* text :
       {"", "engine=", "engine=5", "engine=5 knobs=2", "engine=5 knobs=2:", "engine=5 knobs=2:7,",
        "engine=5 knobs=,2:7", "engine=5 knobs=14:3,2:7", "engine=5 knobs=2:7,2:7", "engine=5 knobs=2:7 ",
        "engine=05 knobs=2:7", "engine=5 knobs=2:+7", "engine=99999999999999999999 knobs="}) {
    CAPTURE(text);
    CHECK_FALSE(ConvolutionAlgorithm::from_text(text));
  }
}

// Whether operations that each differ from the first in one respect all have different keys.
template <typename Shape>
size_t different_words(const Shape& first, const std::vector<std::function<void(Shape&)>>& changes) {
  std::set<std::pair<std::string, Fields>> words = {{operation_of(first), fields_of(first)}};
  for (const auto& change : changes) {
    Shape changed = first;
    change(changed);
    words.emplace(operation_of(changed), fields_of(changed));
  }
  return words.size();
}

TEST_CASE("products that differ in anything have other words") {
  ProductProblem first;
  first.m = 64;
  first.n = 10;
  first.k = 128;
  first.a = {128, 8192, false};
  first.b = {128, 1280, true};
  first.d = {10, 640, false};
  first.c = {10, 640, false};
  first.addend = ProductProblem::Addend::matrix;
  CHECK(operation_of(first) == "product");
  CHECK(fields_of(first) == Fields{{"a", "n128-8192"},
                                   {"addend", "n10-640"},
                                   {"alignment", "16"},
                                   {"b", "t128-1280"},
                                   {"batch", "1"},
                                   {"d", "n10-640"},
                                   {"element", "f32"},
                                   {"math", "exact"},
                                   {"size", "64x10x128"}});
  const std::vector<std::function<void(ProductProblem&)>> changes = {
      [](ProductProblem& p) { p.element = Element::bf16; },
      [](ProductProblem& p) { p.math = Math::tf32; },
      [](ProductProblem& p) { p.batch = 2; },
      [](ProductProblem& p) { p.m = 65; },
      [](ProductProblem& p) { p.n = 11; },
      [](ProductProblem& p) { p.k = 129; },
      [](ProductProblem& p) { p.a.leading = 130; },
      [](ProductProblem& p) { p.a.stride = 0; },
      [](ProductProblem& p) { p.a.transposed = true; },
      [](ProductProblem& p) { p.b.leading = 130; },
      [](ProductProblem& p) { p.b.stride = 0; },
      [](ProductProblem& p) { p.b.transposed = false; },
      [](ProductProblem& p) { p.c.leading = 12; },
      [](ProductProblem& p) { p.c.stride = 0; },
      [](ProductProblem& p) { p.d.leading = 12; },
      [](ProductProblem& p) { p.d.stride = 641; },
      [](ProductProblem& p) { p.addend = ProductProblem::Addend::none; },
      [](ProductProblem& p) { p.addend = ProductProblem::Addend::bias; },
      [](ProductProblem& p) { p.alignment = 4; }};
  CHECK(different_words(first, changes) == changes.size() + 1);
}

TEST_CASE("convolutions that differ in anything have other words") {
  ConvolutionProblem first;
  first.batch = 8;
  first.channels_in = 6;
  first.channels_out = 12;
  first.height.size = 32;
  first.width.size = 30;
  first.height.filter = 3;
  first.width.filter = 5;
  first.groups = 2;
  CHECK(operation_of(first) == "convolution_forward");
  CHECK(fields_of(first) == Fields{{"dilation", "1x1"},
                                   {"element", "f32"},
                                   {"filter", "12x3x3x5"},
                                   {"groups", "2"},
                                   {"input", "8x6x32x30"},
                                   {"math", "exact"},
                                   {"padding", "0x0"},
                                   {"stride", "1x1"}});
  ConvolutionProblem volume = first;
  volume.depth = {.size = 7, .filter = 2, .stride = 3, .padding = 1, .dilation = 4};
  CHECK(fields_of(volume) == Fields{{"dilation", "4x1x1"},
                                    {"element", "f32"},
                                    {"filter", "12x3x2x3x5"},
                                    {"groups", "2"},
                                    {"input", "8x6x7x32x30"},
                                    {"math", "exact"},
                                    {"padding", "1x0x0"},
                                    {"stride", "3x1x1"}});
  const std::vector<std::function<void(ConvolutionProblem&)>> changes = {
      [](ConvolutionProblem& c) { c.depth.size = 2; },      [](ConvolutionProblem& c) { c.pass = Pass::data; },
      [](ConvolutionProblem& c) { c.pass = Pass::filter; }, [](ConvolutionProblem& c) { c.element = Element::bf16; },
      [](ConvolutionProblem& c) { c.math = Math::tf32; },   [](ConvolutionProblem& c) { c.batch = 9; },
      [](ConvolutionProblem& c) { c.channels_in = 8; },     [](ConvolutionProblem& c) { c.height.size = 33; },
      [](ConvolutionProblem& c) { c.width.size = 31; },     [](ConvolutionProblem& c) { c.channels_out = 14; },
      [](ConvolutionProblem& c) { c.height.filter = 4; },   [](ConvolutionProblem& c) { c.width.filter = 4; },
      [](ConvolutionProblem& c) { c.groups = 1; },          [](ConvolutionProblem& c) { c.height.stride = 2; },
      [](ConvolutionProblem& c) { c.width.stride = 2; },    [](ConvolutionProblem& c) { c.height.padding = 1; },
      [](ConvolutionProblem& c) { c.width.padding = 1; },   [](ConvolutionProblem& c) { c.height.dilation = 2; },
      [](ConvolutionProblem& c) { c.width.dilation = 2; }};
  CHECK(different_words(first, changes) == changes.size() + 1);
}

}  // namespace
}  // namespace estrain::kernels::pinned
