#include "kernels/portable/loops/softmax.h"

#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"
#include "kernels/portable/loops/row_sum.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {

using Arguments = SoftmaxArguments;

// Fewer elements than this are not worth a second thread.
static constexpr int64_t least_elements = 8192;
static constexpr int64_t chain_block = portable::kChainBlock;

ESTRAIN_FUNCTION Floats or_lowest(Whole, Floats x) { return x; }
ESTRAIN_FUNCTION Floats or_lowest(Tail tail, Floats x) { return blend(tail.n, x, broadcast(-__builtin_inff())); }

// The largest lane, in all lanes; never -0.
ESTRAIN_FUNCTION Floats largest_lane(Floats x) {
  if constexpr (width > 8) x = greater(turned<8>(x), x);
  if constexpr (width > 4) x = greater(turned<4>(x), x);
  x = greater(turned<2>(x), x);
  x = greater(turned<1>(x), x);
  return x + 0.0f;
}

// The largest of n floats, never -0; unspecified if one is NaN.
static inline float largest(const float* x, int64_t n) {
  Floats max[kLaneVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kLaneVectors; ++v) max[v] = broadcast(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) max[v] = greater(load(x + i + v * static_cast<int64_t>(width)), max[v]);
  }
  for_vectors(static_cast<size_t>(i), static_cast<size_t>(n),
              [&](size_t at, auto part) { max[0] = greater(or_lowest(part, part.read(x + at)), max[0]); });
#pragma GCC unroll 8
  for (int v = 1; v < kLaneVectors; ++v) max[0] = greater(max[v], max[0]);
  return largest_lane(max[0])[0];
}

template <bool logarithmic>
ESTRAIN_FUNCTION Floats gradient_term(Floats gradient, Floats result, Floats sum) {
  return logarithmic ? sum + gradient : fused(gradient, result, sum);
}
template <bool logarithmic>
ESTRAIN_FUNCTION Floats input_gradient(Floats gradient, Floats result, Floats sum) {
  return logarithmic ? fused(negated(exponential_to_89(result)), sum, gradient) : (gradient - sum) * result;
}

// The number of rows that take each step (maximum, sum) together: a row need not wait for its previous step.
static constexpr int64_t kRows = 16;

template <bool logarithmic>
static inline void forward_rows(float* out, const float* x, int64_t rows, int64_t n) {
  float max[kRows], sum[kRows] = {};
  for (int64_t row = 0; row < rows; ++row) max[row] = largest(x + row * n, n);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * n;
    float* to = out + row * n;
    const Floats most = broadcast(max[row]);
    sum[row] = row_sum(n, [&](Floats lanes, int64_t i, auto part) {
      const Floats e = exponential_to_89(part.read(from + i) - most);
      if (!logarithmic) part.write(to + i, e);
      return lanes + part.keep(e);
    });
  }
  if (logarithmic) {
    for (size_t row = 0; row < kRows; row += width) store(sum + row, logarithm(load(sum + row)));
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * n;
    float* to = out + row * n;
    const Floats most = broadcast(max[row]), total = broadcast(sum[row]);
    for_vectors(0, static_cast<size_t>(n), [&](size_t i, auto part) {
      part.write(to + i, logarithmic ? part.read(from + i) - most - total : part.read(to + i) / total);
    });
  }
}

template <bool logarithmic>
static inline void backward_rows(float* out, const float* gradients, const float* results, int64_t rows, int64_t n) {
  float sum[kRows];
  for (int64_t row = 0; row < rows; ++row) {
    const float* gradient = gradients + row * n;
    const float* result = results + row * n;
    sum[row] = row_sum(n, [&](Floats lanes, int64_t i, auto part) {
      return gradient_term<logarithmic>(part.read(gradient + i), part.read(result + i), lanes);
    });
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float* gradient = gradients + row * n;
    const float* result = results + row * n;
    const Floats total = broadcast(sum[row]);
    for_vectors(0, static_cast<size_t>(n), [&](size_t i, auto part) {
      part.write(out + row * n + static_cast<int64_t>(i),
                 input_gradient<logarithmic>(part.read(gradient + i), part.read(result + i), total));
    });
  }
}

// Several vectors of columns side by side, since rows are far apart and each row starts new cache lines. Either all
// parts are whole, or there is a single part.
template <int n, typename Part>
struct Columns {
  Part part;
  int64_t stride;  // floats from a row to the next row

  // Calls body(v, i, part) for each vector v of row d, with offset i.
  template <typename Body>
  inline __attribute__((always_inline)) void for_row(int64_t d, Body body) const {
#pragma GCC unroll 8
    for (int v = 0; v < n; ++v) body(v, d * stride + v * static_cast<int64_t>(width), part);
  }

  // Calls step(sum, v, i, part) for each row in [0, dim), by the rule of reduction.h for inner > 1.
  template <typename Step>
  inline __attribute__((always_inline)) void chain_sums(Floats (&totals)[n], int64_t dim, Step step) const {
#pragma GCC unroll 8
    for (int v = 0; v < n; ++v) totals[v] = broadcast(0);
    for (int64_t begin = 0; begin < dim; begin += chain_block) {
      const int64_t end = begin + chain_block < dim ? begin + chain_block : dim;
      Floats sums[n];
#pragma GCC unroll 8
      for (int v = 0; v < n; ++v) sums[v] = broadcast(0);
      for (int64_t d = begin; d < end; ++d) {
        for_row(d, [&](int v, int64_t i, auto in_part) { sums[v] = step(sums[v], v, i, in_part); });
      }
#pragma GCC unroll 8
      for (int v = 0; v < n; ++v) totals[v] = begin == 0 ? sums[v] : totals[v] + sums[v];
    }
  }
};

template <bool logarithmic, int n, typename Part>
static inline void forward_columns(float* out, const float* x, int64_t dim, const Columns<n, Part>& columns) {
  Floats max[n], sums[n];
#pragma GCC unroll 8
  for (int v = 0; v < n; ++v) max[v] = broadcast(-__builtin_inff());
  for (int64_t d = 0; d < dim; ++d) {
    columns.for_row(d, [&](int v, int64_t i, auto part) { max[v] = greater(part.read(x + i), max[v]); });
  }
#pragma GCC unroll 8
  for (int v = 0; v < n; ++v) max[v] = max[v] + 0.0f;
  columns.chain_sums(sums, dim, [&](Floats so_far, int v, int64_t i, auto part) {
    const Floats e = exponential_to_89(part.read(x + i) - max[v]);
    if (!logarithmic) part.write(out + i, e);
    return so_far + e;
  });
#pragma GCC unroll 8
  for (int v = 0; v < n; ++v) sums[v] = logarithmic ? logarithm(sums[v]) : sums[v];
  for (int64_t d = 0; d < dim; ++d) {
    columns.for_row(d, [&](int v, int64_t i, auto part) {
      part.write(out + i, logarithmic ? part.read(x + i) - max[v] - sums[v] : part.read(out + i) / sums[v]);
    });
  }
}

template <bool logarithmic, int n, typename Part>
static inline void backward_columns(float* out, const float* gradient, const float* result, int64_t dim,
                                    const Columns<n, Part>& columns) {
  Floats sums[n];
  columns.chain_sums(sums, dim, [&](Floats so_far, int, int64_t i, auto part) {
    return gradient_term<logarithmic>(part.read(gradient + i), part.read(result + i), so_far);
  });
  for (int64_t d = 0; d < dim; ++d) {
    columns.for_row(d, [&](int v, int64_t i, auto part) {
      part.write(out + i, input_gradient<logarithmic>(part.read(gradient + i), part.read(result + i), sums[v]));
    });
  }
}

// Calls body(i, columns) over the columns [0, inner) of rows.
template <typename Body>
static inline void for_columns(int64_t inner, Body body) {
  constexpr int64_t at_once = 4 * static_cast<int64_t>(width);
  int64_t i = 0;
  for (; i + at_once <= inner; i += at_once) body(i, Columns<4, Whole>{{}, inner});
  for_vectors(static_cast<size_t>(i), static_cast<size_t>(inner), [&](size_t at, auto part) {
    body(static_cast<int64_t>(at), Columns<1, decltype(part)>{part, inner});
  });
}

// Calls rows(offset, number) for groups of rows, or columns(offset, Columns) for groups of columns.
template <typename Rows, typename EachColumns>
static inline void for_stretches(const Arguments& a, const Execution& execution, Rows rows, EachColumns columns) {
  const int64_t least = least_elements / (a.dim * a.inner + 1) + 1;
  const int64_t few = a.inner == 1 ? 2048 / (a.dim + 1) : 1;  // rows that fit into the first-level cache
  const int64_t step = few < 1 ? 1 : few < kRows ? few : kRows;
  for_ranges(execution, a.outer, 1, least, [&](int64_t begin, int64_t end) {
    for (int64_t outer = begin; outer < end; outer += step) {
      const int64_t offset = outer * a.dim * a.inner;
      if (a.inner == 1) {
        rows(offset, end - outer < step ? end - outer : step);
      } else {
        for_columns(a.inner, [&](int64_t i, auto some) { columns(offset + i, some); });
      }
    }
  });
}

template <bool logarithmic>
static void forward(const Arguments& arguments, const Execution& execution) {
  const Arguments a = arguments;
  for_stretches(
      a, execution, [&](int64_t at, int64_t rows) { forward_rows<logarithmic>(a.out + at, a.x + at, rows, a.dim); },
      [&](int64_t at, auto columns) { forward_columns<logarithmic>(a.out + at, a.x + at, a.dim, columns); });
}

template <bool logarithmic>
static void backward(const Arguments& arguments, const Execution& execution) {
  const Arguments a = arguments;
  for_stretches(
      a, execution,
      [&](int64_t at, int64_t rows) { backward_rows<logarithmic>(a.out + at, a.gradient + at, a.x + at, rows, a.dim); },
      [&](int64_t at, auto columns) {
        backward_columns<logarithmic>(a.out + at, a.gradient + at, a.x + at, a.dim, columns);
      });
}

extern const SoftmaxLoops softmax_loops = {.softmax = forward<false>,
                                           .log_softmax = forward<true>,
                                           .softmax_backward = backward<false>,
                                           .log_softmax_backward = backward<true>};

}  // namespace estrain::kernels::ESTRAIN_ISA
