#include "kernels/portable/softmax.h"

#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::portable {

void softmax(float* out, const float* x, const SoftmaxShape& shape, const Execution& execution) {
  softmax_loops_of(execution).softmax({out, x, nullptr, shape.outer, shape.dim, shape.inner}, execution);
}

void log_softmax(float* out, const float* x, const SoftmaxShape& shape, const Execution& execution) {
  softmax_loops_of(execution).log_softmax({out, x, nullptr, shape.outer, shape.dim, shape.inner}, execution);
}

void softmax_backward(float* out, const float* gradient, const float* result, const SoftmaxShape& shape,
                      const Execution& execution) {
  softmax_loops_of(execution).softmax_backward({out, result, gradient, shape.outer, shape.dim, shape.inner}, execution);
}

void log_softmax_backward(float* out, const float* gradient, const float* result, const SoftmaxShape& shape,
                          const Execution& execution) {
  softmax_loops_of(execution).log_softmax_backward({out, result, gradient, shape.outer, shape.dim, shape.inner},
                                                   execution);
}

}  // namespace estrain::kernels::portable
