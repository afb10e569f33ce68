#include "kernels/portable/upsample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/bits.h"
#include "tests/kernels/portable/threads.h"

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::kernels::test;

namespace {

struct Read {
  int64_t first, second;
  float a, b;
};

Read nearest(int64_t o, int64_t in, int64_t out, double factor) {
  if (in == out) return {o, o, 1, 0};
  if (out == 2 * in) return {o / 2, o / 2, 1, 0};
  const float scale = factor > 0 ? static_cast<float>(1 / factor) : static_cast<float>(in) / static_cast<float>(out);
  const int64_t i = std::min(static_cast<int64_t>(static_cast<float>(o) * scale), in - 1);
  return {i, i, 1, 0};
}

Read bilinear(int64_t o, int64_t in, int64_t out, double factor, bool align_corners) {
  float scale = factor > 0 ? static_cast<float>(1 / factor) : static_cast<float>(in) / static_cast<float>(out);
  if (align_corners) scale = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0;
  float real = align_corners ? scale * static_cast<float>(o) : scale * (static_cast<float>(o) + 0.5f) - 0.5f;
  if (real < 0) real = 0;
  const int64_t first = std::min(static_cast<int64_t>(real), in - 1);
  const float b = std::clamp(real - static_cast<float>(first), 0.0f, 1.0f);
  return {first, std::min(first + 1, in - 1), 1 - b, b};
}

struct Shaped {
  UpsampleShape s;
  bool is_nearest;

  Read row(int64_t oh) const {
    return is_nearest ? nearest(oh, s.height, s.output_height, s.factor_height)
                      : bilinear(oh, s.height, s.output_height, s.factor_height, s.align_corners);
  }
  Read column(int64_t ow) const {
    return is_nearest ? nearest(ow, s.width, s.output_width, s.factor_width)
                      : bilinear(ow, s.width, s.output_width, s.factor_width, s.align_corners);
  }
  size_t in(int64_t p, int64_t h, int64_t w) const { return static_cast<size_t>((p * s.height + h) * s.width + w); }
  size_t out(int64_t p, int64_t h, int64_t w) const {
    return static_cast<size_t>((p * s.output_height + h) * s.output_width + w);
  }
};

test::Floats reference(const Shaped& c, const test::Floats& x) {
  test::Floats y(c.out(c.s.planes, 0, 0));
  for (int64_t p = 0; p < c.s.planes; ++p) {
    for (int64_t oh = 0; oh < c.s.output_height; ++oh) {
      for (int64_t ow = 0; ow < c.s.output_width; ++ow) {
        const Read h = c.row(oh), w = c.column(ow);
        const auto along = [&](int64_t ih) {
          return std::fma(w.b, x[c.in(p, ih, w.second)], w.a * x[c.in(p, ih, w.first)]);
        };
        y[c.out(p, oh, ow)] =
            c.is_nearest ? x[c.in(p, h.first, w.first)] : std::fma(h.b, along(h.second), h.a * along(h.first));
      }
    }
  }
  return y;
}

test::Floats reference_backward(const Shaped& c, const test::Floats& dy) {
  test::Floats dx(c.in(c.s.planes, 0, 0));
  for (int64_t p = 0; p < c.s.planes; ++p) {
    for (int64_t oh = 0; oh < c.s.output_height; ++oh) {
      const Read h = c.row(oh);
      test::Floats t(static_cast<size_t>(c.s.width));
      for (int64_t ow = 0; ow < c.s.output_width; ++ow) {
        const Read w = c.column(ow);
        const float g = dy[c.out(p, oh, ow)];
        if (c.is_nearest) {
          dx[c.in(p, h.first, w.first)] += g;
          continue;
        }
        float& first = t[static_cast<size_t>(w.first)];
        first = std::fma(w.a, g, first);
        float& second = t[static_cast<size_t>(w.second)];
        second = std::fma(w.b, g, second);
      }
      if (c.is_nearest) continue;
      for (int64_t i = 0; i < c.s.width; ++i) {
        float& first = dx[c.in(p, h.first, i)];
        first = std::fma(h.a, t[static_cast<size_t>(i)], first);
        float& second = dx[c.in(p, h.second, i)];
        second = std::fma(h.b, t[static_cast<size_t>(i)], second);
      }
    }
  }
  return dx;
}

void check(const Shaped& c, bool wild, uint32_t seed) {
  CAPTURE(c.s.height);
  CAPTURE(c.s.width);
  CAPTURE(c.s.output_height);
  CAPTURE(c.s.output_width);
  CAPTURE(c.is_nearest);
  const size_t in = c.in(c.s.planes, 0, 0), out = c.out(c.s.planes, 0, 0);
  const test::Floats x = wild ? wild_floats(in, seed, seed % 5) : normal_floats(in, 1, seed, seed % 5);
  const test::Floats dy = wild ? wild_floats(out, seed + 1, seed % 3) : normal_floats(out, 1, seed + 1);
  const test::Floats y = reference(c, x), dx = reference_backward(c, dy);
  for (const Isa isa : isas()) {
    for (const int threads : {1, 2}) {
      CAPTURE(isa_name(isa));
      CAPTURE(threads);
      const Execution execution = execution_on(isa, threads);
      test::Floats got_y(out, seed % 3), got_dx(in, seed % 3);
      (c.is_nearest ? upsample_nearest : upsample_bilinear)(got_y.data(), x.data(), c.s, execution);
      REQUIRE(first_difference(got_y, y) == out);
      (c.is_nearest ? upsample_nearest_backward : upsample_bilinear_backward)(got_dx.data(), dy.data(), c.s, execution);
      REQUIRE(first_difference(got_dx, dx) == in);
    }
  }
}

}  // namespace

TEST_CASE("upsampling gives the bits of its definition") {
  std::mt19937 engine(7);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(engine() % n); };
  for (uint32_t i = 0; i < 300; ++i) {
    UpsampleShape s;
    s.planes = below(4);
    s.height = below(20) + 1;
    s.width = below(40) + 1;
    s.output_height = below(40) + 1;
    s.output_width = below(60) + 1;
    if (below(3) == 0) s.output_height = 2 * s.height, s.output_width = 2 * s.width;
    if (below(3) == 0) {
      s.factor_height = 1.7;
      s.factor_width = 0.6;
      s.output_height = static_cast<int64_t>(static_cast<double>(s.height) * 1.7);
      s.output_width = static_cast<int64_t>(static_cast<double>(s.width) * 0.6);
    }
    s.align_corners = below(2) == 0;
    check({s, below(2) == 0}, below(3) == 0, static_cast<uint32_t>(engine()));
  }
  check({{.planes = 64, .height = 28, .width = 28, .output_height = 56, .output_width = 56}, false}, false, 8);
}
