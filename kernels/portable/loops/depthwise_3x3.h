#pragma once
// The 3x3 depthwise convolution with one pixel of padding and stride 1 or 2: reads the rows of an image directly, with
// the filter in registers and padding never in memory. Lanes run over columns (filter's gradient: over channels).

#include "kernels/portable/loops/depthwise_parts.h"
#include "kernels/portable/loops/planes.h"

namespace estrain::kernels::ESTRAIN_ISA {

#ifdef ESTRAIN_MASKS_LANES

struct Filter3x3 {
  Floats taps[9];

  explicit Filter3x3(const float* filter) {
#pragma GCC unroll 9
    for (int t = 0; t < 9; ++t) taps[t] = broadcast(filter[t]);
  }
};

// The inputs of the three taps in a row of the filter.
struct ThreeTaps {
  Floats at[3];

  static inline ThreeTaps none() { return {{broadcast(0), broadcast(0), broadcast(0)}}; }
};

// The sum after the terms of filter row r.
ESTRAIN_INLINE_HERE Floats add_terms_of(const ThreeTaps& x, const Filter3x3& filter, int r, Floats sum) {
  sum = fused(x.at[0], filter.taps[3 * r], sum);
  sum = fused(x.at[1], filter.taps[3 * r + 1], sum);
  return fused(x.at[2], filter.taps[3 * r + 2], sum);
}

// A vector of a row from column `first` on; columns outside [0, columns) are zero.
template <bool masked>
struct RowPart {
  int64_t first;
  LaneMask lanes;

  static RowPart at(int64_t first, int64_t columns) {
    constexpr int64_t all = static_cast<int64_t>(width);
    const int64_t end = larger(0, smaller(all, columns - first)), begin = smaller(end, larger(0, -first));
    return {first, lanes_between(static_cast<size_t>(begin), static_cast<size_t>(end))};
  }
  inline Floats read(const float* row) const {
    Floats x = masked ? load_lanes(row + first, lanes) : load(row + first);
    asm("" : "+v"(x));  // otherwise each use becomes a separate load
    return x;
  }
  inline void write(float* row, Floats x) const {
    if (masked) {
      store_lanes(row + first, x, lanes);
    } else {
      store(row + first, x);
    }
  }
};

// The taps' inputs for outputs [first, first + width) of a row, with taps from left to right or right to left.
template <bool masked>
struct Columns1 {
  RowPart<masked> taps[3];

  static constexpr int64_t stride = 1;

  Columns1(int64_t first, int64_t columns, int64_t direction)
      : taps{RowPart<masked>::at(first - direction, columns), RowPart<masked>::at(first, columns),
             RowPart<masked>::at(first + direction, columns)} {}
  inline ThreeTaps read(const float* row) const { return {{taps[0].read(row), taps[1].read(row), taps[2].read(row)}}; }
};

// The same with stride 2.
template <bool masked>
struct Columns2 {
  RowPart<masked> left[2], right[2];  // from the first tap; from the second tap

  static constexpr int64_t stride = 2;

  Columns2(int64_t first, int64_t columns, int64_t)
      : left{part(2 * first - 1, columns), part(2 * first - 1 + static_cast<int64_t>(width), columns)},
        right{part(2 * first, columns), part(2 * first + static_cast<int64_t>(width), columns)} {}
  static RowPart<masked> part(int64_t first, int64_t columns) { return RowPart<masked>::at(first, columns); }
  inline ThreeTaps read(const float* row) const {
    const Floats low = right[0].read(row), high = right[1].read(row);
    return {{even_lanes(left[0].read(row), left[1].read(row)), even_lanes(low, high), odd_lanes(low, high)}};
  }
};

// Returns the number of rows of a walk that may be stored in whole vectors, `excess` floats longer than a row of n:
// later rows overwrite the excess.
static inline int64_t rows_in_whole(int64_t rows, int64_t n, int64_t excess) {
  return excess <= 0 ? rows : larger(0, rows - rounded_up(excess, n));
}

// The rows of an image in the order of a walk, possibly backwards: the first row and the step to the next.
struct WalkFrom {
  const float* first;
  int64_t step, rows;
};
struct WalkTo {
  float* first;
  int64_t step, rows, whole_rows;
  RowPart<true> part;
  Floats bias;  // -0 without a bias: adding -0 does not change any bits

  inline void write(int64_t row, Floats x) const {
    float* to = first + row * step + part.first;
    if (row < whole_rows) {
      store(to, x + bias);
    } else {
      store_lanes(to, x + bias, part.lanes);
    }
  }
};

// Stride 1: each input row contributes terms to three output rows.
template <bool masked>
ESTRAIN_INLINE_HERE void walk(const WalkFrom& from, const WalkTo& to, const Columns1<masked>& columns,
                              const Filter3x3& filter) {
  const Floats zero = broadcast(0);
  const float* row = from.first;
  Floats next = add_terms_of(ThreeTaps::none(), filter, 0, zero), sum;
  ThreeTaps x = columns.read(row);
  sum = add_terms_of(x, filter, 1, next);
  next = add_terms_of(x, filter, 0, zero);
  for (int64_t i = 1; i < from.rows; ++i) {
    row += from.step;
    x = columns.read(row);
    to.write(i - 1, add_terms_of(x, filter, 2, sum));
    sum = add_terms_of(x, filter, 1, next);
    next = add_terms_of(x, filter, 0, zero);
  }
  to.write(from.rows - 1, add_terms_of(ThreeTaps::none(), filter, 2, sum));
}

// Stride 2: every second input row contributes to two output rows.
template <bool masked>
ESTRAIN_INLINE_HERE void walk(const WalkFrom& from, const WalkTo& to, const Columns2<masked>& columns,
                              const Filter3x3& filter) {
  ThreeTaps above = ThreeTaps::none();
  const float* row = from.first;
  for (int64_t i = 0;; ++i, row += 2 * from.step) {
    Floats sum = add_terms_of(above, filter, 0, broadcast(0));
    sum = add_terms_of(columns.read(row), filter, 1, sum);
    above = 2 * i + 1 < from.rows ? columns.read(row + from.step) : ThreeTaps::none();
    sum = add_terms_of(above, filter, 2, sum);
    to.write(i, sum);
    if (i == to.rows - 1) return;
  }
}

// A plane: the vectors of a row from left to right; the last vector overlaps the previous vector if the row is not a
// multiple of a vector. Only the first and the last vector read columns that do not exist: `ends`.
template <template <bool> typename Columns>
struct Planes3x3 {
  int64_t from_columns, from_rows, columns, rows, direction;
  int64_t first, last;  // columns of the two vectors; equal for a single vector
  Columns<true> ends[2];
  RowPart<true> to_ends[2];

  Planes3x3(const WindowAxis& h, const WindowAxis& w, int64_t direction_of_walk)
      : from_columns(w.in),
        from_rows(h.in),
        columns(w.out),
        rows(h.out),
        direction(direction_of_walk),
        first(columns < kStep && direction < 0 ? columns - kStep : 0),
        last(columns < kStep ? first : columns - kStep),
        ends{{first, w.in, direction}, {last, w.in, direction}},
        to_ends{RowPart<true>::at(first, columns), RowPart<true>::at(last, columns)} {}

  // x and y are the first rows of the walk. Without a bias, it is -0.
  inline __attribute__((always_inline)) void run(const float* x, const float* weights, float bias, float* y) const {
    const Filter3x3 filter(weights);
    const WalkFrom from{x, direction * from_columns, from_rows};
    WalkTo to{y, direction * columns, rows, rows_in_whole(rows, columns, kStep - columns), to_ends[0], broadcast(bias)};
    walk(from, to, ends[0], filter);
    if (last == first) return;
    for (to.part.first = kStep; to.part.first < last; to.part.first += kStep) {
      walk(from, to, Columns<false>(to.part.first, from_columns, direction), filter);
    }
    to.part = to_ends[1];
    walk(from, to, ends[1], filter);
  }

 private:
  static constexpr int64_t kStep = static_cast<int64_t>(width);
};

template <template <bool> typename Columns>
static void forward_planes_3x3(const DepthwiseArguments& arguments, int64_t begin, int64_t end) {
  const DepthwiseArguments a = arguments;  // a local copy: no store can change it
  const Planes3x3<Columns> planes(a.h, a.w, 1);
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t j = 0; j < a.multiplier; ++j) {
      const int64_t o = p % a.channels * a.multiplier + j;
      planes.run(a.x + p * a.h.in * a.w.in, a.filters + o * 9, a.bias == nullptr ? -0.0f : a.bias[o],
                 a.y + (p * a.multiplier + j) * a.h.out * a.w.out);
    }
  }
}

// Backward with stride 1 walks from the last row to the first, with taps from right to left. If a row is shorter than a
// vector, the vector begins before the row.
static void backward_planes_1(const DepthwiseArguments& arguments, int64_t begin, int64_t end) {
  const DepthwiseArguments a = arguments;
  const Planes3x3<Columns1> planes(a.h, a.w, -1);
  const int64_t last_row = (a.h.in - 1) * a.w.in;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t at = p * a.h.in * a.w.in + last_row;
    planes.run(a.dy + at, a.filters + p % a.channels * 9, -0.0f, a.dx + at);
  }
}

// Rows of dx of stride 2.
struct PairsTo {
  int64_t whole_rows;
  RowPart<true> low, high;

  inline void write(float* row, bool whole, Floats even, Floats odd) const {
    if (whole) {
      store(row + low.first, first_turns(even, odd));
      store(row + high.first, last_turns(even, odd));
    } else {
      low.write(row, first_turns(even, odd));
      high.write(row, last_turns(even, odd));
    }
  }
};

// Stride 2: even rows and columns of dx take the middle taps, odd ones the outer.
template <bool masked>
static void backward_walk_2(const DepthwiseArguments& arguments, const float* dy, const Filter3x3& weights,
                            int64_t first, float* dx) {
  const DepthwiseArguments a = arguments;
  constexpr int64_t step = static_cast<int64_t>(width);
  const Floats zero = broadcast(0);
  const Filter3x3 filter = weights;
  const Floats* w = filter.taps;
  const RowPart<masked> here = RowPart<masked>::at(first, a.w.out), right = RowPart<masked>::at(first + 1, a.w.out);
  const int64_t excess = 2 * (first + step) - a.w.in;
  const bool alone = a.w.out <= step;  // otherwise another vector has already written the next row's first columns
  const PairsTo to{alone || excess <= 0 ? rows_in_whole(a.h.in, a.w.in, excess) : 0,
                   RowPart<true>::at(2 * first, a.w.in), RowPart<true>::at(2 * first + step, a.w.in)};
  Floats x0 = here.read(dy), x1 = right.read(dy);
  for (int64_t row = 0;;) {
    to.write(dx, row < to.whole_rows, fused(x0, w[4], zero), fused(x0, w[5], fused(x1, w[3], zero)));
    if (++row == a.h.in) return;
    dx += a.w.in;
    dy += a.w.out;
    const bool last = row + 1 >= a.h.in;
    const Floats below0 = last ? zero : here.read(dy), below1 = last ? zero : right.read(dy);
    to.write(dx, row < to.whole_rows, fused(x0, w[7], fused(below0, w[1], zero)),
             fused(x0, w[8], fused(x1, w[6], fused(below0, w[2], fused(below1, w[0], zero)))));
    if (++row == a.h.in) return;
    dx += a.w.in;
    x0 = below0;
    x1 = below1;
  }
}

static void backward_planes_2(const DepthwiseArguments& a, int64_t begin, int64_t end) {
  constexpr int64_t step = static_cast<int64_t>(width);
  const int64_t n = a.w.out;
  for (int64_t p = begin; p < end; ++p) {
    const Filter3x3 filter(a.filters + p % a.channels * 9);
    const float* dy = a.dy + p * a.h.out * n;
    float* dx = a.dx + p * a.h.in * a.w.in;
    int64_t first = 0;
    for (; first + step < n; first += step) backward_walk_2<false>(a, dy, filter, first, dx);
    backward_walk_2<true>(a, dy, filter, larger(0, n - step), dx);
  }
}

#endif

}  // namespace estrain::kernels::ESTRAIN_ISA
