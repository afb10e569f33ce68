#pragma once
// Softmax and its logarithm over the middle index of x[outer][dim][inner], contiguous.
//
// With m = the largest x (as +0 where that is -0) and sums in the order of reduction.h for {outer, dim, inner}:
//   softmax               e = exp(x - m); e / sum(e)
//   log_softmax           (x - m) - log(sum(exp(x - m)))
//   softmax_backward      (g - sum(g * y)) * y, the sum as acc = fma(g, y, acc), y the result
//   log_softmax_backward  fma(-exp(y), sum(g), g), y the result
// A row with a NaN, with +infinity, or with only -infinity gives NaN throughout; -infinity among finite numbers gives 0
// (the logarithm is -infinity).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct SoftmaxShape {
  int64_t outer = 1, dim = 0, inner = 1;
};

// `out` may be an input.
void softmax(float* out, const float* x, const SoftmaxShape& shape, const Execution& execution);
void log_softmax(float* out, const float* x, const SoftmaxShape& shape, const Execution& execution);
void softmax_backward(float* out, const float* gradient, const float* result, const SoftmaxShape& shape,
                      const Execution& execution);
void log_softmax_backward(float* out, const float* gradient, const float* result, const SoftmaxShape& shape,
                          const Execution& execution);

}  // namespace estrain::kernels::portable
