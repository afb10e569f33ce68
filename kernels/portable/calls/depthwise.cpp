#include "kernels/portable/depthwise.h"

#include "kernels/portable/loops/depthwise.h"

namespace estrain::kernels::portable {
namespace {

DepthwiseArguments arguments_of(const DepthwiseShape& s) {
  DepthwiseArguments a = {};
  a.n = s.n;
  a.channels = s.channels;
  a.multiplier = s.multiplier;
  a.h = {s.height, s.output_height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height};
  a.w = {s.width, s.output_width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width};
  return a;
}

}  // namespace

void depthwise_forward(float* y, const float* x, const float* filters, const float* bias, const DepthwiseShape& shape,
                       const Execution& execution) {
  DepthwiseArguments a = arguments_of(shape);
  a.y = y;
  a.x = x;
  a.filters = filters;
  a.bias = bias;
  depthwise_loops(execution.isa).forward(a, execution);
}

void depthwise_backward_data(float* dx, const float* dy, const float* filters, const DepthwiseShape& shape,
                             const Execution& execution) {
  DepthwiseArguments a = arguments_of(shape);
  a.dx = dx;
  a.dy = dy;
  a.filters = filters;
  depthwise_loops(execution.isa).backward_data(a, execution);
}

void depthwise_backward_filter(float* dfilters, const float* dy, const float* x, const DepthwiseShape& shape,
                               const Execution& execution) {
  DepthwiseArguments a = arguments_of(shape);
  a.dfilters = dfilters;
  a.dy = dy;
  a.x = x;
  depthwise_loops(execution.isa).backward_filter(a, execution);
}

}  // namespace estrain::kernels::portable
