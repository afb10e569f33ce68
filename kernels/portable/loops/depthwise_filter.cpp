// The gradients of the filters of a depthwise convolution: channels in the lanes of vectors.

#include "kernels/portable/loops/depthwise_3x3_filter.h"
#include "kernels/portable/loops/depthwise_parts.h"
#include "kernels/portable/loops/planes.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

constexpr int64_t kWidth = static_cast<int64_t>(width);

// Transposes channels to lanes: lane l of out[i] is from[l * stride + i] for i in [0, n); `out` has a gap of `gap`
// vectors after every `row` elements.
void transpose_rows(const float* from, int64_t stride, int64_t n, int64_t row, int64_t gap, float* out) {
  int64_t column = 0;
  const auto put = [&](Floats x) __attribute__((always_inline)) {
    store(out, x);
    out += kWidth;
    if (++column == row) {
      column = 0;
      out += gap * kWidth;
    }
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    // 4 x 4 in each 128-bit lane, with 4 channels.
    Floats quads[4];
#pragma GCC unroll 4
    for (int64_t q = 0; q < 4; ++q) quads[q] = load_quads(from + q * stride + i, 4 * stride);
    const Floats low01 = unpack_low(quads[0], quads[1]), high01 = unpack_high(quads[0], quads[1]);
    const Floats low23 = unpack_low(quads[2], quads[3]), high23 = unpack_high(quads[2], quads[3]);
    put(low_pairs(low01, low23));
    put(high_pairs(low01, low23));
    put(low_pairs(high01, high23));
    put(high_pairs(high01, high23));
  }
  for (; i < n; ++i) {
    float lanes[width];
    for (int64_t l = 0; l < kWidth; ++l) lanes[l] = from[l * stride + i];
    put(load(lanes));
  }
}

// The same for planes that are not contiguous in memory.
void gather_rows(const float* const (&planes)[width], int64_t begin, int64_t n, int64_t row, int64_t gap, float* out) {
  for (int64_t i = 0, column = 0; i < n; ++i) {
    for (int64_t l = 0; l < kWidth; ++l) out[l] = planes[l][begin + i];
    out += kWidth;
    if (++column < row) continue;
    column = 0;
    out += gap * kWidth;
  }
}

// A strip of output rows of one image, for `width` output channels, channels last.
struct Strip {
  const float* x;   // padded rows of x_pitch pixels
  const float* dy;  // rows of w.out pixels
  int64_t rows, x_pitch;
};

// The sums of `taps` taps: chains that continue from strip to strip and image to image.
template <int taps>
void add_strip(const DepthwiseArguments& a, const Strip& strip, const int64_t* offsets, int64_t phase, float* chains,
               float* totals) {
  Floats chain[taps];
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) chain[t] = load(chains + t * kWidth);
  int64_t k = phase;  // pixels so far
  const float* dy = strip.dy;
  const float* taps_at[taps];
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) taps_at[t] = strip.x + offsets[t];
  for (int64_t oh = 0; oh < strip.rows; ++oh) {
    for (int64_t ow = 0; ow < a.w.out;) {
      const int64_t end = smaller(a.w.out, ow + kTermBlock - k % kTermBlock);
      k += end - ow;
      int64_t at = (oh * a.h.stride * strip.x_pitch + ow * a.w.stride) * kWidth;
#pragma GCC unroll 1
      for (; ow < end; ++ow, at += a.w.stride * kWidth, dy += kWidth) {
        const Floats gradient = load(dy);
#pragma GCC unroll 9
        for (int t = 0; t < taps; ++t) chain[t] = fused(load(taps_at[t] + at), gradient, chain[t]);
      }
      if (k % kTermBlock != 0) continue;
#pragma GCC unroll 9
      for (int t = 0; t < taps; ++t) {
        store(totals + t * kWidth, k == kTermBlock ? chain[t] : load(totals + t * kWidth) + chain[t]);
        chain[t] = broadcast(0);
      }
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < taps; ++t) store(chains + t * kWidth, chain[t]);
}

constexpr int64_t kStripFloats = 48 * 1024;  // of x: fits into a part of the second-level cache

// Output channels in the lanes of a vector.
struct Group {
  int64_t first;        // the channel of lane 0
  int64_t skip, lanes;  // lanes [skip, lanes) are this group's; earlier lanes: another group's, later lanes: no channel

  // The last group is shifted back: all of its lanes are channels if the convolution has enough channels.
  static Group of(int64_t group, int64_t outputs) {
    const int64_t begin = group * kWidth, first = larger(0, smaller(begin, outputs - kWidth));
    return {first, begin - first, smaller(kWidth, outputs - first)};
  }
};

void backward_filter_group(const DepthwiseArguments& a, const Group& group) {
  const int64_t kernel = a.h.kernel * a.w.kernel, outputs = a.channels * a.multiplier;
  const int64_t first = group.first, lanes = group.lanes;
  const bool consecutive = a.multiplier == 1 && lanes == kWidth;
  const int64_t extent = (a.h.kernel - 1) * a.h.dilation + 1;
  const int64_t x_pitch = (a.w.out - 1) * a.w.stride + (a.w.kernel - 1) * a.w.dilation + 1;
  const int64_t rows = larger(1, smaller(a.h.out, kStripFloats / (x_pitch * kWidth * a.h.stride)));
  const int64_t x_rows = (rows - 1) * a.h.stride + extent;
  // Columns of the image in the strip.
  const int64_t columns = larger(0, smaller(a.w.in, x_pitch - a.w.padding));
  float* x = scratch(kInputSlot, x_rows * x_pitch * kWidth);
  float* dy = scratch(kGradientSlot, rows * a.w.out * kWidth);
  float* chains = scratch(kResultSlot, 2 * kernel * kWidth);
  float* totals = chains + kernel * kWidth;
  auto* offsets = reinterpret_cast<int64_t*>(scratch(kTapSlot, 2 * kernel));
  for (int64_t i = 0; i < kernel * kWidth; ++i) chains[i] = 0;
  for (int64_t r = 0; r < a.h.kernel; ++r) {
    for (int64_t s = 0; s < a.w.kernel; ++s) {
      offsets[r * a.w.kernel + s] = (r * a.h.dilation * x_pitch + s * a.w.dilation) * kWidth;
    }
  }
  for (int64_t i = 0; i < x_rows * x_pitch * kWidth; ++i) x[i] = 0;
  int64_t pixels = 0;
  for (int64_t n = 0; n < a.n; ++n) {
    const float *x_planes[width], *dy_planes[width];
    for (int64_t l = 0; l < kWidth; ++l) {
      const int64_t o = first + smaller(l, lanes - 1);  // lanes after the last channel repeat it; their results are
                                                        // ignored
      x_planes[l] = a.x + (n * a.channels + o / a.multiplier) * a.h.in * a.w.in;
      dy_planes[l] = a.dy + (n * outputs + o) * a.h.out * a.w.out;
    }
    for (int64_t oh = 0; oh < a.h.out; oh += rows) {
      const Strip strip = {x, dy, smaller(rows, a.h.out - oh), x_pitch};
      // Rows of the image in the strip, zeros above and below.
      const int64_t top = oh * a.h.stride - a.h.padding, height = (strip.rows - 1) * a.h.stride + extent;
      const int64_t begin = smaller(larger(0, top), a.h.in), end = larger(begin, smaller(a.h.in, top + height));
      for (int64_t row = 0; row < height && columns > 0; ++row) {
        if (row + top >= begin && row + top < end) continue;
        float* to = x + (row * x_pitch + a.w.padding) * kWidth;
        __builtin_memset(to, 0, static_cast<size_t>(columns * kWidth) * sizeof(float));
      }
      const int64_t dy_first = oh * a.w.out, dy_pixels = strip.rows * a.w.out;
      float* to = x + ((begin - top) * x_pitch + a.w.padding) * kWidth;
      if (consecutive && columns == a.w.in) {
        transpose_rows(x_planes[0] + begin * a.w.in, a.h.in * a.w.in, (end - begin) * columns, columns,
                       x_pitch - columns, to);
      } else if (columns > 0) {
        for (int64_t y = begin; y < end; ++y, to += x_pitch * kWidth) {
          gather_rows(x_planes, y * a.w.in, columns, columns, 0, to);
        }
      }
      if (consecutive) {
        transpose_rows(dy_planes[0] + dy_first, a.h.out * a.w.out, dy_pixels, dy_pixels, 0, dy);
      } else {
        gather_rows(dy_planes, dy_first, dy_pixels, dy_pixels, 0, dy);
      }
      int64_t t = 0;
      for (; t + 9 <= kernel; t += 9) {
        add_strip<9>(a, strip, offsets + t, pixels, chains + t * kWidth, totals + t * kWidth);
      }
      for (; t + 4 <= kernel; t += 4) {
        add_strip<4>(a, strip, offsets + t, pixels, chains + t * kWidth, totals + t * kWidth);
      }
      for (; t < kernel; ++t) {
        add_strip<1>(a, strip, offsets + t, pixels, chains + t * kWidth, totals + t * kWidth);
      }
      pixels += strip.rows * a.w.out;
    }
  }
  const bool whole_blocks = pixels >= kTermBlock, rest = pixels % kTermBlock != 0 || pixels == 0;
  for (int64_t t = 0; t < kernel; ++t) {
    const bool exists = tap_exists(a.h, t / a.w.kernel) && tap_exists(a.w, t % a.w.kernel);
    for (int64_t l = group.skip; l < lanes; ++l) {
      float sum = whole_blocks ? totals[t * kWidth + l] : chains[t * kWidth + l];
      if (whole_blocks && rest) sum = sum + chains[t * kWidth + l];
      a.dfilters[(first + l) * kernel + t] = exists ? sum : 0.0f;
    }
  }
}

}  // namespace

void depthwise_backward_filter(const DepthwiseArguments& a, const Execution& execution) {
  const int64_t outputs = a.channels * a.multiplier, groups = rounded_up(outputs, kWidth);
  if (a.h.out == 0 || a.w.out == 0 || a.h.in == 0 || a.w.in == 0) {
    for (int64_t i = 0; i < outputs * a.h.kernel * a.w.kernel; ++i) a.dfilters[i] = 0;
    return;
  }
  const int64_t tasks = num_tasks(a, groups, execution);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t g = groups * task / tasks; g < groups * (task + 1) / tasks; ++g) {
      const Group group = Group::of(g, outputs);
      if (is_3x3(a) && a.multiplier == 1 && group.lanes == kWidth) {
        const auto kernel = a.w.stride == 1 ? backward_filter_3x3<1> : backward_filter_3x3<2>;
        kernel(a, group.first, group.skip, {kInputSlot, kGradientSlot, kPlaneSlot});
      } else {
        backward_filter_group(a, group);
      }
    }
  });
}

}  // namespace estrain::kernels::ESTRAIN_ISA
