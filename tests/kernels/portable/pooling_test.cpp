#include "kernels/portable/pooling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/bits.h"
#include "tests/kernels/check_same.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::kernels::test;

namespace {

// Positions of a plane in a window, in order.
using Positions = std::vector<int64_t>;

Positions window(const PoolingShape& s, int64_t oh, int64_t ow) {
  Positions out;
  for (int64_t r = 0; r < s.kernel_height; ++r) {
    for (int64_t t = 0; t < s.kernel_width; ++t) {
      const int64_t h = oh * s.stride_height - s.padding_height + r * s.dilation_height;
      const int64_t w = ow * s.stride_width - s.padding_width + t * s.dilation_width;
      if (h >= 0 && h < s.height && w >= 0 && w < s.width) out.push_back(h * s.width + w);
    }
  }
  return out;
}

Positions window(const AdaptivePoolingShape& s, int64_t oh, int64_t ow) {
  Positions out;
  for (int64_t h = oh * s.height / s.output_height; h * s.output_height < (oh + 1) * s.height; ++h) {
    for (int64_t w = ow * s.width / s.output_width; w * s.output_width < (ow + 1) * s.width; ++w) {
      out.push_back(h * s.width + w);
    }
  }
  return out;
}

float divisor(const PoolingShape& s, int64_t oh, int64_t ow) {
  if (s.divisor_override != 0) return static_cast<float>(s.divisor_override);
  int64_t taps = 0;
  for (int64_t r = 0; r < s.kernel_height; ++r) {
    for (int64_t t = 0; t < s.kernel_width; ++t) {
      const int64_t h = oh * s.stride_height - s.padding_height + r, w = ow * s.stride_width - s.padding_width + t;
      const int64_t margin_h = s.count_include_pad ? s.padding_height : 0;
      const int64_t margin_w = s.count_include_pad ? s.padding_width : 0;
      taps += h >= -margin_h && h < s.height + margin_h && w >= -margin_w && w < s.width + margin_w;
    }
  }
  return static_cast<float>(taps);
}

float divisor(const AdaptivePoolingShape& s, int64_t oh, int64_t ow) {
  return static_cast<float>(window(s, oh, ow).size());
}

struct Expected {
  test::Floats max, average, max_dx, average_dx;
  std::vector<int64_t> indices;
};

template <typename Shape>
Expected reference(const Shape& s, const test::Floats& x, const test::Floats& dy) {
  Expected out{test::Floats(dy.size()), test::Floats(dy.size()), test::Floats(x.size()), test::Floats(x.size()), {}};
  size_t o = 0;
  for (int64_t p = 0; p < s.planes; ++p) {
    const auto plane = static_cast<size_t>(p * s.height * s.width);
    for (int64_t oh = 0; oh < s.output_height; ++oh) {
      for (int64_t ow = 0; ow < s.output_width; ++ow, ++o) {
        const Positions positions = window(s, oh, ow);
        float best = -std::numeric_limits<float>::infinity(), sum = 0;
        int64_t index = positions.empty() ? -1 : positions[0];
        for (const int64_t i : positions) {
          const float value = x[plane + static_cast<size_t>(i)];
          if (value > best || value != value) best = value, index = i;
          sum += value;
        }
        out.max[o] = best;
        out.indices.push_back(index);
        out.average[o] = positions.empty() ? 0.0f : sum / divisor(s, oh, ow);
        if (index >= 0) out.max_dx[plane + static_cast<size_t>(index)] += dy[o];
        for (const int64_t i : positions) out.average_dx[plane + static_cast<size_t>(i)] += dy[o] / divisor(s, oh, ow);
      }
    }
  }
  return out;
}

test::Floats values(int64_t n, int kind, uint32_t seed) {
  const auto size = static_cast<size_t>(n);
  if (kind == 0) return wild_floats(size, seed, seed % 5);
  test::Floats out = normal_floats(size, 1, seed, seed % 5);
  // Many equal values, and windows with only -infinity.
  if (kind == 1) {
    for (size_t i = 0; i < size; ++i) out[i] = out[i] < 0 ? -std::numeric_limits<float>::infinity() : 1.0f;
  }
  return out;
}

void check(const PoolingShape& s, int kind, uint32_t seed) {
  CAPTURE(s.height);
  CAPTURE(s.width);
  CAPTURE(s.kernel_height);
  CAPTURE(s.kernel_width);
  CAPTURE(s.stride_height);
  CAPTURE(s.stride_width);
  CAPTURE(s.padding_width);
  CAPTURE(s.dilation_width);
  const test::Floats x = values(s.planes * s.height * s.width, kind, seed);
  const test::Floats dy = values(s.planes * s.output_height * s.output_width, kind == 1 ? 2 : kind, seed + 1);
  const Expected expected = reference(s, x, dy);
  const bool average = s.dilation_height == 1 && s.dilation_width == 1;
  for (const Isa isa : isas()) {
    for (const int threads : {1, 2}) {
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      const Execution execution = execution_on(isa, threads);
      test::Floats y(dy.size(), seed % 3), dx(x.size(), seed % 3);
      std::vector<int64_t> indices(dy.size());
      max_pool(y.data(), indices.data(), x.data(), s, execution);
      check_same("maximum", y, expected.max);
      REQUIRE(indices == expected.indices);
      max_pool_backward(dx.data(), dy.data(), indices.data(), s, execution);
      check_same("dx of maximum", dx, expected.max_dx);
      if (!average) continue;
      average_pool(y.data(), x.data(), s, execution);
      check_same("average", y, expected.average);
      average_pool_backward(dx.data(), dy.data(), s, execution);
      check_same("dx of average", dx, expected.average_dx);
    }
  }
}

void check(const AdaptivePoolingShape& s, int kind, uint32_t seed) {
  CAPTURE(s.height);
  CAPTURE(s.width);
  CAPTURE(s.output_height);
  CAPTURE(s.output_width);
  const test::Floats x = values(s.planes * s.height * s.width, kind, seed);
  const test::Floats dy = values(s.planes * s.output_height * s.output_width, kind == 1 ? 2 : kind, seed + 1);
  const Expected expected = reference(s, x, dy);
  for (const Isa isa : isas()) {
    for (const int threads : {1, 2}) {
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      const Execution execution = execution_on(isa, threads);
      test::Floats y(dy.size(), seed % 3), dx(x.size(), seed % 3);
      std::vector<int64_t> indices(dy.size());
      adaptive_max_pool(y.data(), indices.data(), x.data(), s, execution);
      check_same("maximum", y, expected.max);
      REQUIRE(indices == expected.indices);
      adaptive_max_pool_backward(dx.data(), dy.data(), indices.data(), s, execution);
      check_same("dx of maximum", dx, expected.max_dx);
      adaptive_average_pool(y.data(), x.data(), s, execution);
      check_same("average", y, expected.average);
      adaptive_average_pool_backward(dx.data(), dy.data(), s, execution);
      check_same("dx of average", dx, expected.average_dx);
    }
  }
}

int64_t output_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool up) {
  const int64_t room = in + 2 * padding - (kernel - 1) * dilation - 1;
  if (room < 0) return 0;
  int64_t out = (room + (up ? stride - 1 : 0)) / stride + 1;
  if (up && (out - 1) * stride >= in + padding) --out;
  return out;
}

void set_outputs(PoolingShape& s, bool up) {
  s.output_height = output_size(s.height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height, up);
  s.output_width = output_size(s.width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width, up);
}

}  // namespace

TEST_CASE("pooling gives the bits of its definition") {
  std::mt19937 engine(5);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(engine() % n); };
  for (uint32_t i = 0; i < 260; ++i) {
    PoolingShape s;
    s.planes = below(4) + 1;
    s.height = below(20) + 1;
    s.width = below(6) == 0 ? below(150) + 1 : below(20) + 1;
    s.kernel_height = below(4) + 1;
    s.kernel_width = below(4) + 1;
    s.stride_height = below(4) + 1;
    s.stride_width = below(2) == 0 ? 2 : below(4) + 1;
    s.padding_height = below(static_cast<uint32_t>(s.kernel_height / 2 + 1));
    s.padding_width = below(static_cast<uint32_t>(s.kernel_width / 2 + 1));
    s.dilation_height = below(4) == 0 ? below(3) + 1 : 1;
    s.dilation_width = below(4) == 0 ? below(3) + 1 : 1;
    s.count_include_pad = below(2) == 0;
    s.divisor_override = below(6) == 0 ? 7 : 0;
    set_outputs(s, below(2) == 0);
    check(s, static_cast<int>(below(4)), static_cast<uint32_t>(engine()));
  }
  PoolingShape s{.planes = 3, .height = 70, .width = 112, .kernel_height = 3, .kernel_width = 3};
  s.stride_height = s.stride_width = 2;
  s.padding_height = s.padding_width = 1;
  set_outputs(s, false);
  check(s, 2, 9);
  s.planes = 0;
  check(s, 2, 10);
}

TEST_CASE("adaptive pooling gives the bits of its definition") {
  std::mt19937 engine(6);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(engine() % n); };
  for (uint32_t i = 0; i < 220; ++i) {
    AdaptivePoolingShape s{below(4) + 1, below(20) + 1, below(20) + 1, below(9) + 1, below(9) + 1};
    if (below(3) == 0) s.height = s.output_height * (below(3) + 1), s.width = s.output_width * (below(3) + 1);
    check(s, static_cast<int>(below(4)), static_cast<uint32_t>(engine()));
  }
}
