#include "kernels/portable/depthwise.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/kernels/check_same.h"
#include "tests/kernels/portable/reference_depthwise.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::kernels::test;

namespace {

int64_t output_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t room = in + 2 * padding - (kernel - 1) * dilation - 1;
  return room < 0 ? 0 : room / stride + 1;
}

void set_outputs(DepthwiseShape& s) {
  s.output_height = output_size(s.height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height);
  s.output_width = output_size(s.width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width);
}

test::Floats values(size_t n, bool wild, uint32_t seed) {
  test::Floats out = normal_floats(n, 1, seed, seed % 5);
  if (!wild) return out;
  const test::Floats strange = wild_floats(n, seed + 1);
  for (size_t i = seed % 7; i < n; i += 31) out[i] = strange[i];
  return out;
}

void check(const DepthwiseShape& s, bool wild, bool with_bias, uint32_t seed) {
  CAPTURE(s.n);
  CAPTURE(s.channels);
  CAPTURE(s.multiplier);
  CAPTURE(s.height);
  CAPTURE(s.width);
  CAPTURE(s.kernel_height);
  CAPTURE(s.kernel_width);
  CAPTURE(s.stride_height);
  CAPTURE(s.stride_width);
  CAPTURE(s.padding_height);
  CAPTURE(s.padding_width);
  CAPTURE(s.dilation_height);
  CAPTURE(s.dilation_width);
  const auto outputs = static_cast<size_t>(s.channels * s.multiplier);
  const test::Floats x = values(static_cast<size_t>(s.n * s.channels * s.height * s.width), wild, seed);
  const test::Floats w = values(outputs * static_cast<size_t>(s.kernel_height * s.kernel_width), wild, seed + 2);
  const test::Floats dy = values(static_cast<size_t>(s.n * s.output_height * s.output_width) * outputs, wild, seed + 4);
  const test::Floats bias = values(outputs, false, seed + 6);
  const float* b = with_bias ? bias.data() : nullptr;
  const test::Floats y = reference_forward(s, x, w, b), dx = reference_backward_data(s, dy, w),
                     dw = reference_backward_filter(s, dy, x);
  for (const Isa isa : isas()) {
    for (const int threads : {1, 2}) {
      if (threads == 2 && isa != best_isa()) continue;
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      const Execution execution = execution_on(isa, threads);
      test::Floats got_y(y.size(), seed % 3), got_dx(dx.size(), seed % 3), got_dw(dw.size(), seed % 3);
      depthwise_forward(got_y.data(), x.data(), w.data(), b, s, execution);
      check_same("y", got_y, y);
      depthwise_backward_data(got_dx.data(), dy.data(), w.data(), s, execution);
      check_same("dx", got_dx, dx);
      depthwise_backward_filter(got_dw.data(), dy.data(), x.data(), s, execution);
      check_same("dw", got_dw, dw);
    }
  }
}

}  // namespace

TEST_CASE("depthwise convolution gives the bits of its definition") {
  std::mt19937 engine(4);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(engine() % n); };
  for (uint32_t i = 0; i < 260; ++i) {
    DepthwiseShape s;
    s.n = below(3) + 1;
    s.channels = below(8) == 0 ? below(40) + 1 : below(6) + 1;
    s.multiplier = below(4) == 0 ? below(3) + 1 : 1;
    s.height = below(14) + 1;
    s.width = below(6) == 0 ? below(90) + 1 : below(20) + 1;
    s.kernel_height = below(2) == 0 ? 3 : below(6) + 1;
    s.kernel_width = below(2) == 0 ? 3 : below(6) + 1;
    s.stride_height = below(4) + 1;
    s.stride_width = below(2) == 0 ? s.stride_height : below(4) + 1;
    s.padding_height = below(4);
    s.padding_width = below(4);
    s.dilation_height = below(4) == 0 ? below(4) + 1 : 1;
    s.dilation_width = below(4) == 0 ? below(4) + 1 : 1;
    set_outputs(s);
    check(s, below(3) == 0, below(2) == 0, static_cast<uint32_t>(engine()));
  }
}

TEST_CASE("3x3 depthwise convolution with one pixel of padding gives the bits of its definition") {
  std::mt19937 engine(5);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(engine() % n); };
  for (uint32_t i = 0; i < 260; ++i) {
    DepthwiseShape s;
    s.n = below(3) + 1;
    s.channels = below(4) == 0 ? below(24) + 16 : below(4) + 1;
    s.multiplier = below(6) == 0 ? 2 : 1;
    s.height = below(12) + 1;
    s.width = below(6) == 0 ? below(90) + 1 : below(38) + 1;
    if (below(3) == 0) s.height = s.width = int64_t{7} << below(3);
    s.kernel_height = s.kernel_width = 3;
    s.padding_height = s.padding_width = 1;
    s.stride_height = s.stride_width = below(2) + 1;
    set_outputs(s);
    check(s, below(3) == 0, below(2) == 0, static_cast<uint32_t>(engine()));
  }
}

TEST_CASE("depthwise convolution writes nothing but its results") {
  for (const Isa isa : isas()) {
    for (int64_t width = 3; width < 40; ++width) {
      for (const int64_t stride : {1, 2}) {
        CAPTURE(isa_name(isa));
        CAPTURE(width);
        CAPTURE(stride);
        DepthwiseShape s{.n = 1, .channels = 1, .height = 5, .width = width, .kernel_height = 3, .kernel_width = 3};
        s.padding_height = s.padding_width = 1;
        s.stride_height = s.stride_width = stride;
        set_outputs(s);
        const std::vector<float> in(static_cast<size_t>(s.height * width), 2), filter(9, 1);
        const auto untouched = [](const std::vector<float>& memory, int64_t used) {
          int64_t touched = 0;
          for (const float x : memory) touched += x != -1;
          return touched == used && memory[63] == -1 && memory[static_cast<size_t>(64 + used)] == -1;
        };
        std::vector<float> y(static_cast<size_t>(128 + s.output_height * s.output_width), -1);
        depthwise_forward(y.data() + 64, in.data(), filter.data(), nullptr, s, execution_on(isa, 1));
        CHECK(untouched(y, s.output_height * s.output_width));
        std::vector<float> dx(static_cast<size_t>(128 + s.height * width), -1);
        depthwise_backward_data(dx.data() + 64, in.data(), filter.data(), s, execution_on(isa, 1));
        CHECK(untouched(dx, s.height * width));
      }
    }
  }
}

TEST_CASE("depthwise convolution gives the bits of its definition at the edges") {
  DepthwiseShape s{.n = 1, .channels = 2, .height = 20, .width = 20, .kernel_height = 17, .kernel_width = 17};
  set_outputs(s);
  check(s, false, true, 1);  // more taps than a block
  s = {.n = 2, .channels = 3, .height = 33, .width = 70, .kernel_height = 3, .kernel_width = 3};
  s.padding_height = s.padding_width = 1;
  set_outputs(s);
  check(s, false, true, 2);
  s.stride_height = s.stride_width = 2;
  set_outputs(s);
  check(s, false, false, 3);
  s = {.n = 2, .channels = 2, .height = 2, .width = 2, .kernel_height = 5, .kernel_width = 5};  // no output
  check(s, false, false, 4);
  s.padding_height = s.padding_width = 6;  // outputs that read only padding
  set_outputs(s);
  check(s, true, true, 5);
  s = {.n = 0, .channels = 3, .height = 4, .width = 4, .kernel_height = 3, .kernel_width = 3};
  set_outputs(s);
  check(s, false, false, 6);
  s = {.n = 1, .channels = 20, .height = 130, .width = 60, .kernel_height = 3, .kernel_width = 3};
  s.padding_height = s.padding_width = 1;  // several strips
  set_outputs(s);
  check(s, false, false, 7);
}
