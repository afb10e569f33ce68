#pragma once
// Lays out a plane (a channel of an image) for pooling and depthwise convolution: neighbouring outputs read a tap (an
// element of the window) from neighbouring floats, for any stride and padding. For code compiled per instruction set.

#include "kernels/loops/walks.h"
#include "kernels/portable/loops/window_axis.h"

namespace estrain::kernels::ESTRAIN_ISA {

#define ESTRAIN_INLINE_HERE static inline __attribute__((always_inline))

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a < b ? b : a; }
static inline int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// a / stride, rounded down, and the remainder, for any a. Strides 1 and 2 avoid a division instruction per row, which
// would cost more than the work on a row of a small plane.
ESTRAIN_INLINE_HERE int64_t quotient(int64_t a, int64_t stride) {
  if (stride == 1) return a;
  if (stride == 2) return a >> 1;
  return a >= 0 ? a / stride : -((stride - 1 - a) / stride);
}
ESTRAIN_INLINE_HERE int64_t remainder(int64_t a, int64_t stride) { return a - quotient(a, stride) * stride; }

// Whether tap t reads the image for some output. A tap that reads only padding is not a term of the convolution's sum.
static inline bool tap_exists(const WindowAxis& axis, int64_t t) {
  for (int64_t o = 0; o < axis.out; ++o) {
    const int64_t i = o * axis.stride - axis.padding + t * axis.dilation;
    if (i >= 0 && i < axis.in) return true;
  }
  return false;
}

// Many short rows; each begins `pitch` floats after the row before.
struct Rows {
  float* at;
  int64_t pitch;
};
struct ConstRows {
  const float* at;
  int64_t pitch;
};

// Copies n columns of `rows` rows, vector column by vector column: the mask of the last vector is made only once.
static inline void copy_rows(const Rows& to, const ConstRows& from, int64_t rows, int64_t n) {
  if (n <= 0) return;
  for_vectors(
      0, static_cast<size_t>(n), [&](size_t i, auto part) __attribute__((always_inline)) {
        for (int64_t r = 0; r < rows; ++r)
          part.write(to.at + r * to.pitch + i, part.read(from.at + r * from.pitch + i));
      });
}

// even[i] = from[2 * i], odd[i] = from[2 * i + 1], for i < n, in each row; `even` and `odd` have the same pitch.
static inline void split_rows(const Rows& even, float* odd, const ConstRows& from, int64_t rows, int64_t n) {
  constexpr int64_t step = static_cast<int64_t>(width);
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = from.at + r * from.pitch + 2 * i;
      const Floats low = load(row), high = load(row + step);
      store(even.at + r * even.pitch + i, even_lanes(low, high));
      store(odd + r * even.pitch + i, odd_lanes(low, high));
    }
  }
  if (i >= n) return;
  const int64_t left = n - i, in_low = smaller(2 * left, step);
  const Tail low_part{static_cast<size_t>(in_low)}, high_part{static_cast<size_t>(2 * left - in_low)};
  const Tail part{static_cast<size_t>(left)};
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = from.at + r * from.pitch + 2 * i;
    const Floats low = low_part.read(row), high = high_part.read(row + step);
    part.write(even.at + r * even.pitch + i, even_lanes(low, high));
    part.write(odd + r * even.pitch + i, odd_lanes(low, high));
  }
}

// to[2 * i] = even[i], to[2 * i + 1] = odd[i], for n floats of each row of `to`. May read past `even` and `odd`.
static inline void join_rows(const Rows& to, const ConstRows& even, const float* odd, int64_t rows, int64_t n) {
  constexpr int64_t step = static_cast<int64_t>(width);
  for (int64_t i = 0; i < n; i += 2 * step) {
    const int64_t in_low = smaller(n - i, step), in_high = smaller(n - i - in_low, step);
    const Tail low_part{static_cast<size_t>(in_low)}, high_part{static_cast<size_t>(in_high)};
    for (int64_t r = 0; r < rows; ++r) {
      const Floats a = load(even.at + r * even.pitch + i / 2), b = load(odd + r * even.pitch + i / 2);
      low_part.write(to.at + r * to.pitch + i, first_turns(a, b));
      high_part.write(to.at + r * to.pitch + i + step, last_turns(a, b));
    }
  }
}

// Rows of `pitch` values, of which the first `columns` count. A kernel runs over the rows one by one or, if the rows
// are short (flat()), over all rows as one array of length() values, including the gaps.
struct Runs {
  int64_t rows, columns, pitch;

  bool flat() const { return columns < 3 * static_cast<int64_t>(width) && columns % static_cast<int64_t>(width) != 0; }
  int64_t length() const { return rows == 0 || columns == 0 ? 0 : (rows - 1) * pitch + columns; }
};

static constexpr int64_t kSlack = 8 * 16;  // floats after a plane or its results that whole vectors may touch

// The padded image, split into phases_h x phases_w planes by the residues of padded row and column modulo the strides.
// Output (oh, ow) reads through tap (r, s) the float at tap(r, s) + oh * pitch + ow.
struct SplitPlane {
  WindowAxis h, w;
  int64_t phases_h, phases_w;  // number of residues, from 0 on, that taps can have
  int64_t rows, pitch;         // of each plane: rows, and floats from row to row

  static SplitPlane of(const WindowAxis& h, const WindowAxis& w) {
    const int64_t extent_h = (h.kernel - 1) * h.dilation + 1, extent_w = (w.kernel - 1) * w.dilation + 1;
    return {h,
            w,
            smaller(h.stride, extent_h),
            smaller(w.stride, extent_w),
            rounded_up((h.out - 1) * h.stride + extent_h, h.stride),
            rounded_up((w.out - 1) * w.stride + extent_w, w.stride)};
  }
  int64_t floats() const { return phases_h * phases_w * rows * pitch + kSlack; }
  int64_t tap(int64_t r, int64_t s) const {
    const int64_t y = r * h.dilation, x = s * w.dilation;
    return ((y % h.stride) * phases_w + x % w.stride) * rows * pitch + y / h.stride * pitch + x / w.stride;
  }
  Runs runs() const { return {h.out, w.out, pitch}; }

  // Fills the whole memory, floats(). Once suffices: put() overwrites the floats of the image, the same each time.
  void fill(float* plane, float padding) const {
    for (int64_t i = 0; i < floats(); ++i) plane[i] = padding;
  }
  void put(float* plane, const float* image) const {
    for (int64_t phase = 0; phase < phases_h; ++phase) {
      const int64_t y = remainder(phase - h.padding, h.stride), row = quotient(y + h.padding, h.stride);
      const int64_t count = smaller(quotient(h.in - 1 - y, h.stride) + 1, rows - row);
      if (count <= 0) continue;
      put_rows(plane + (phase * phases_w * rows + row) * pitch, {image + y * w.in, h.stride * w.in}, count);
    }
  }

 private:
  // Columns j of the residue `phase` stand at j * stride + phase - padding in the image.
  int64_t first(int64_t phase) const { return larger(0, quotient(w.padding - phase + w.stride - 1, w.stride)); }
  int64_t last(int64_t phase) const { return smaller(pitch, quotient(w.in - 1 + w.padding - phase, w.stride) + 1); }
  void put_rows(float* to, const ConstRows& image, int64_t count) const {
    if (w.stride == 1) {
      copy_rows({to + first(0), pitch}, {image.at + first(0) - w.padding, image.pitch}, count, last(0) - first(0));
    } else if (w.stride == 2 && phases_w == 2) {
      const int64_t begin = larger(first(0), first(1)), end = larger(begin, smaller(last(0), last(1)));
      const ConstRows pairs{image.at + 2 * begin - w.padding, image.pitch};
      split_rows({to + begin, pitch}, to + rows * pitch + begin, pairs, count, end - begin);
      for (int64_t phase = 0; phase < 2; ++phase) {
        put_columns(to, image, count, phase, first(phase), smaller(begin, last(phase)));
        put_columns(to, image, count, phase, end, last(phase));
      }
    } else {
      for (int64_t phase = 0; phase < phases_w; ++phase) {
        put_columns(to, image, count, phase, first(phase), last(phase));
      }
    }
  }
  void put_columns(float* to, const ConstRows& image, int64_t count, int64_t phase, int64_t begin, int64_t end) const {
    for (int64_t j = begin; j < end; ++j) {
      for (int64_t r = 0; r < count; ++r) {
        to[phase * rows * pitch + r * pitch + j] = image.at[r * image.pitch + j * w.stride + phase - w.padding];
      }
    }
  }
};

// The backward direction along a dimension: gradients of inputs from gradients of outputs. The inputs i with
// (i + padding) mod stride = phase are first + stride * k, k < count. Through each tap t with t * dilation mod stride
// = phase, input i takes from output (i + padding - t * dilation) / stride = k + shift - t * dilation / stride.
struct BackwardAxis {
  WindowAxis axis;
  int64_t low, size;  // inputs take from outputs low to low + size - 1; those outside [0, out) are padding

  static BackwardAxis of(const WindowAxis& axis) {
    BackwardAxis b{axis, 0, axis.out};
    int64_t high = axis.out;
    for (int64_t phase = 0; phase < smaller(axis.stride, axis.in); ++phase) {
      const int64_t furthest = (axis.kernel - 1) * axis.dilation / axis.stride;
      b.low = smaller(b.low, b.shift(phase) - furthest);
      high = larger(high, b.shift(phase) + b.count(phase));
    }
    b.size = high - b.low;
    return b;
  }
  int64_t first(int64_t phase) const { return remainder(phase - axis.padding, axis.stride); }
  int64_t count(int64_t phase) const {
    return first(phase) >= axis.in ? 0 : quotient(axis.in - 1 - first(phase), axis.stride) + 1;
  }
  int64_t shift(int64_t phase) const { return quotient(first(phase) + axis.padding, axis.stride); }
  // Whether some input of this residue takes through tap t from an output in [0, out).
  bool takes(int64_t phase, int64_t t) const {
    if (t * axis.dilation % axis.stride != phase) return false;
    const int64_t begin = shift(phase) - t * axis.dilation / axis.stride;
    return axis.out > 0 && count(phase) > 0 && begin < axis.out && begin + count(phase) > 0;
  }
};

// The gradients of a plane's outputs, padded with zeros: output (oh, ow) is at (oh - h.low) * pitch() + ow - w.low.
// Input (k, l) of residues (phase_h, phase_w) takes through tap (r, s) from tap(…) + k * pitch() + l.
struct BackwardPlane {
  BackwardAxis h, w;

  int64_t pitch() const { return w.size; }
  int64_t floats() const { return h.size * w.size + kSlack; }
  void fill(float* plane) const { __builtin_memset(plane, 0, static_cast<size_t>(floats()) * sizeof(float)); }
  float* row(float* plane, int64_t oh) const { return plane + (oh - h.low) * pitch() - w.low; }
  void put(float* plane, const float* image) const {  // image: the gradients of the outputs
    copy_rows({row(plane, 0), pitch()}, {image, w.axis.out}, h.axis.out, w.axis.out);
  }
  int64_t tap(int64_t phase_h, int64_t phase_w, int64_t r, int64_t s) const {
    const int64_t y = h.shift(phase_h) - r * h.axis.dilation / h.axis.stride - h.low;
    const int64_t x = w.shift(phase_w) - s * w.axis.dilation / w.axis.stride - w.low;
    return y * pitch() + x;
  }
  Runs runs(int64_t phase_h, int64_t phase_w) const { return {h.count(phase_h), w.count(phase_w), pitch()}; }
  int64_t result_floats() const { return w.axis.stride * floats(); }  // of one row residue, with all column residues

  // Writes the gradients of the inputs of a row residue; results of column residue b are at results + b * floats().
  void write(float* image, const float* results, int64_t phase_h) const {
    const int64_t stride = w.axis.stride, rows = h.count(phase_h);
    const Rows to{image + h.first(phase_h) * w.axis.in, h.axis.stride * w.axis.in};
    if (stride == 1) {
      copy_rows(to, {results, pitch()}, rows, w.axis.in);
    } else if (stride == 2) {
      const int64_t even = w.first(0);  // the residue of column 0
      join_rows(to, {results + even * floats(), pitch()}, results + (1 - even) * floats(), rows, w.axis.in);
    } else {
      for (int64_t b = 0; b < stride; ++b) {
        for (int64_t k = 0; k < rows; ++k) {
          for (int64_t j = 0; j < w.count(b); ++j) {
            to.at[k * to.pitch + w.first(b) + j * stride] = results[b * floats() + k * pitch() + j];
          }
        }
      }
    }
  }
};

// Calls body(start, length, row) for each row; if flat(), once for all, with row 0: results then include the gaps.
template <typename Body>
ESTRAIN_INLINE_HERE void for_runs(const Runs& runs, Body body) {
  if (runs.length() == 0) return;
  if (runs.flat()) return body(int64_t{0}, runs.length(), int64_t{0});
  for (int64_t row = 0; row < runs.rows; ++row) body(row * runs.pitch, runs.columns, row);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
