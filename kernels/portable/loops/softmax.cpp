#include "kernels/portable/loops/softmax.h"

#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"
#include "kernels/portable/loops/ranges.h"
#include "kernels/portable/loops/row_sum.h"

namespace estrain::kernels::ESTRAIN_ISA {

using Arguments = SoftmaxArguments;

// Fewer elements than this are not worth a second thread.
static constexpr int64_t least_elements = 8192;
static constexpr int64_t chain_block = 256;

ESTRAIN_FUNCTION Floats or_lowest(Whole, Floats x) { return x; }
ESTRAIN_FUNCTION Floats or_lowest(Tail tail, Floats x) { return blend(tail.n, x, broadcast(-__builtin_inff())); }

// The largest lane, in all lanes; never -0.
ESTRAIN_FUNCTION Floats largest_lane(Floats x) {
#pragma GCC unroll 4
  for (size_t half = width / 2; half > 0; half /= 2) x = greater(turned(x, half), x);
  return x + 0.0f;
}

// The largest of n floats, never -0; anything if one is NaN.
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

// Several rows one after another in each step, so that a step of one row need not wait for the step before.
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

// step(sum, d) for d in [0, dim), by the rule of reduction.h for inner > 1.
template <typename Step>
ESTRAIN_FUNCTION Floats chain_sum(int64_t dim, Step step) {
  Floats total = broadcast(0);
  for (int64_t begin = 0; begin < dim; begin += chain_block) {
    const int64_t end = begin + chain_block < dim ? begin + chain_block : dim;
    Floats sum = broadcast(0);
    for (int64_t d = begin; d < end; ++d) sum = step(sum, d);
    total = begin == 0 ? sum : total + sum;
  }
  return total;
}

// A vector of columns, whose elements lie `stride` apart.
template <bool logarithmic, typename Part>
static inline void forward_columns(float* out, const float* x, int64_t dim, int64_t stride, Part part) {
  Floats max = broadcast(-__builtin_inff());
  for (int64_t d = 0; d < dim; ++d) max = greater(part.read(x + d * stride), max);
  max = max + 0.0f;
  const Floats sum = chain_sum(dim, [&](Floats so_far, int64_t d) {
    const Floats e = exponential_to_89(part.read(x + d * stride) - max);
    if (!logarithmic) part.write(out + d * stride, e);
    return so_far + e;
  });
  const Floats logarithm_of_sum = logarithmic ? logarithm(sum) : sum;
  for (int64_t d = 0; d < dim; ++d) {
    const int64_t i = d * stride;
    part.write(out + i, logarithmic ? part.read(x + i) - max - logarithm_of_sum : part.read(out + i) / sum);
  }
}

template <bool logarithmic, typename Part>
static inline void backward_columns(float* out, const float* gradient, const float* result, int64_t dim, int64_t stride,
                                    Part part) {
  const Floats sum = chain_sum(dim, [&](Floats so_far, int64_t d) {
    return gradient_term<logarithmic>(part.read(gradient + d * stride), part.read(result + d * stride), so_far);
  });
  for (int64_t d = 0; d < dim; ++d) {
    const int64_t i = d * stride;
    part.write(out + i, input_gradient<logarithmic>(part.read(gradient + i), part.read(result + i), sum));
  }
}

// rows(offset, number) for each few rows, or columns(offset, part) for each vector of columns.
template <typename Rows, typename Columns>
static inline void for_stretches(const Arguments& a, const Execution& execution, Rows rows, Columns columns) {
  const int64_t least = least_elements / (a.dim * a.inner + 1) + 1;
  const int64_t few = a.inner == 1 ? 2048 / (a.dim + 1) : 1;  // what stays in the first-level cache
  const int64_t step = few < 1 ? 1 : few < kRows ? few : kRows;
  for_ranges(execution, a.outer, 1, least, [&](int64_t begin, int64_t end) {
    for (int64_t outer = begin; outer < end; outer += step) {
      const int64_t offset = outer * a.dim * a.inner;
      if (a.inner == 1) {
        rows(offset, end - outer < step ? end - outer : step);
      } else {
        for_vectors(0, static_cast<size_t>(a.inner),
                    [&](size_t i, auto part) { columns(offset + static_cast<int64_t>(i), part); });
      }
    }
  });
}

template <bool logarithmic>
static void forward(const Arguments& arguments, const Execution& execution) {
  const Arguments a = arguments;
  for_stretches(
      a, execution, [&](int64_t at, int64_t rows) { forward_rows<logarithmic>(a.out + at, a.x + at, rows, a.dim); },
      [&](int64_t at, auto part) { forward_columns<logarithmic>(a.out + at, a.x + at, a.dim, a.inner, part); });
}

template <bool logarithmic>
static void backward(const Arguments& arguments, const Execution& execution) {
  const Arguments a = arguments;
  for_stretches(
      a, execution,
      [&](int64_t at, int64_t rows) { backward_rows<logarithmic>(a.out + at, a.gradient + at, a.x + at, rows, a.dim); },
      [&](int64_t at, auto part) {
        backward_columns<logarithmic>(a.out + at, a.gradient + at, a.x + at, a.dim, a.inner, part);
      });
}

extern const SoftmaxLoops softmax_loops = {forward<false>, forward<true>, backward<false>, backward<true>};

}  // namespace estrain::kernels::ESTRAIN_ISA
