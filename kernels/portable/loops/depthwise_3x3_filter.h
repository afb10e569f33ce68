#pragma once
// The filter's gradient of depthwise_3x3.h. Lanes run over channels: a band of rows is transposed to channels-last,
// without padding. The band is small enough to stay in the first-level cache.

#include "kernels/portable/loops/depthwise_parts.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {

#ifndef ESTRAIN_TURNS_4_PIXELS
// Transposes four pixels of `width` channels, `stride` floats apart: channels become lanes.
ESTRAIN_INLINE_HERE void turn_4_pixels(const float* from, int64_t stride, float* to) {
  constexpr int64_t step = static_cast<int64_t>(width);
  Floats quads[4];
#pragma GCC unroll 4
  for (int64_t q = 0; q < 4; ++q) quads[q] = load_quads(from + q * stride, 4 * stride);
  const Floats low01 = unpack_low(quads[0], quads[1]), high01 = unpack_high(quads[0], quads[1]);
  const Floats low23 = unpack_low(quads[2], quads[3]), high23 = unpack_high(quads[2], quads[3]);
  store(to, low_pairs(low01, low23));
  store(to + step, high_pairs(low01, low23));
  store(to + 2 * step, low_pairs(high01, high23));
  store(to + 3 * step, high_pairs(high01, high23));
}
#endif

// The same for n pixels.
static void turn_pixels(const float* from, int64_t stride, int64_t n, float* to) {
  constexpr int64_t step = static_cast<int64_t>(width);
  if (n < 4) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t l = 0; l < step; ++l) to[i * step + l] = from[l * stride + i];
    }
    return;
  }
  for (int64_t i = 0; i + 4 <= n; i += 4) turn_4_pixels(from + i, stride, to + i * step);
  if (n % 4 != 0) turn_4_pixels(from + n - 4, stride, to + (n - 4) * step);
}

// The nine chains of `width` channels, continued from row to row and image to image.
class FilterChains {
 public:
  FilterChains() {
    for (Floats& chain : chains_) chain = broadcast(0);
  }

  // Adds one row of outputs: x holds the rows that the taps read, dy the row's gradients, channels last.
  template <int stride>
  inline __attribute__((always_inline)) void add_row(const float* const (&x)[3], const float* dy, int64_t columns,
                                                     int64_t outputs) {
    constexpr int64_t step = static_cast<int64_t>(width);
    const bool reads_behind = stride * (outputs - 1) + 1 == columns;
    const float *above = x[0] - step, *here = x[1] - step, *below = x[2] - step;  // of the left tap
    for (int64_t i = 0; i < outputs;) {
      const int64_t end = smaller(outputs, i + kTerms - terms_ % kTerms);
      terms_ += end - i;
      Floats chain[9];
#pragma GCC unroll 9
      for (int t = 0; t < 9; ++t) chain[t] = chains_[t];
      const auto pixel = [&](int64_t output, bool left, bool right) __attribute__((always_inline)) {
        const Floats gradient = load(dy + output * step), zero = broadcast(0);
        const int64_t at = output * stride * step;
#pragma GCC unroll 3
        for (int s = 0; s < 3; ++s) {
          const bool padding = (s == 0 && left) || (s == 2 && right);
          chain[s] = fused(padding ? zero : load(above + at + s * step), gradient, chain[s]);
          chain[3 + s] = fused(padding ? zero : load(here + at + s * step), gradient, chain[3 + s]);
          chain[6 + s] = fused(padding ? zero : load(below + at + s * step), gradient, chain[6 + s]);
        }
      };
      if (i == 0) pixel(i++, true, false);
      const int64_t inner = end - (reads_behind && end == outputs ? 1 : 0);
#pragma GCC unroll 1
      while (i < inner) pixel(i++, false, false);
      if (i < end) pixel(i++, false, true);
#pragma GCC unroll 9
      for (int t = 0; t < 9; ++t) chains_[t] = chain[t];
      if (terms_ % kTerms == 0) end_block();
    }
  }

  // Writes lanes [begin, end), each to a filter of nine.
  void write(float* dfilters, int64_t begin, int64_t end) {
    if (terms_ % kTerms != 0) end_block();
    for (int64_t l = begin; l < end; ++l) {
      for (int t = 0; t < 9; ++t) dfilters[l * 9 + t] = totals_[t][l];
    }
  }

 private:
  static constexpr int64_t kTerms = 256;  // kernels/portable/block.h

  void end_block() {
    for (int t = 0; t < 9; ++t) {
      totals_[t] = terms_ <= kTerms ? chains_[t] : totals_[t] + chains_[t];
      chains_[t] = broadcast(0);
    }
  }

  Floats chains_[9], totals_[9];
  int64_t terms_ = 0;  // per chain
};

// Rows [begin, end) of an image of `width` channels, channels last; rows above and below are zeros.
struct RowBand {
  float* memory;
  const float* zeros;
  int64_t columns, begin = 0, end = 0;

  const float* row(int64_t y) const {
    return y < begin || y >= end ? zeros : memory + (y - begin) * columns * static_cast<int64_t>(width);
  }
  // Moves to rows [first, last) of an image with channels `stride` floats apart.
  void move(const float* image, int64_t stride, int64_t first, int64_t last) {
    const int64_t row_floats = columns * static_cast<int64_t>(width), kept = larger(0, end - first);
    if (kept > 0) {
      __builtin_memmove(memory, row(first), static_cast<size_t>(kept * row_floats) * sizeof(float));
    }
    const int64_t from = first + kept;
    turn_pixels(image + from * columns, stride, (last - from) * columns, memory + kept * row_floats);
    begin = first;
    end = last;
  }
};

struct FilterSlots {
  int x, dy, zeros;
};

template <int stride>
static void backward_filter_3x3(const DepthwiseArguments& a, int64_t first_channel, int64_t skip,
                                const FilterSlots& slots) {
  constexpr int64_t step = static_cast<int64_t>(width), band_floats = 3 * 1024;
  const int64_t in = a.h.in * a.w.in, out = a.h.out * a.w.out, row_floats = a.w.in * step;
  const int64_t rows = larger(1, smaller(a.h.out, band_floats / (row_floats * stride)));
  float* x_memory = workspace(slots.x, static_cast<size_t>((stride * rows + 2) * row_floats));
  float* dy = workspace(slots.dy, static_cast<size_t>(rows * a.w.out * step));
  float* zeros = workspace(slots.zeros, static_cast<size_t>(row_floats));
  __builtin_memset(zeros, 0, static_cast<size_t>(row_floats) * sizeof(float));
  FilterChains chains;
  for (int64_t n = 0; n < a.n; ++n) {
    const float* image = a.x + (n * a.channels + first_channel) * in;
    const float* gradients = a.dy + (n * a.channels + first_channel) * out;
    RowBand x{x_memory, zeros, a.w.in};
    for (int64_t oh = 0; oh < a.h.out; oh += rows) {
      const int64_t end = smaller(a.h.out, oh + rows);
      x.move(image, in, larger(0, oh * stride - 1), smaller(a.h.in, (end - 1) * stride + 2));
      turn_pixels(gradients + oh * a.w.out, out, (end - oh) * a.w.out, dy);
      for (int64_t i = oh; i < end; ++i) {
        const int64_t y = i * stride;
        const float* const taps[3] = {x.row(y - 1), x.row(y), x.row(y + 1)};
        chains.add_row<stride>(taps, dy + (i - oh) * a.w.out * step, a.w.in, a.w.out);
      }
    }
  }
  chains.write(a.dfilters + first_channel * 9, skip, step);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
