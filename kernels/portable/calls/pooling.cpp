#include "kernels/portable/pooling.h"

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/loops/pooling.h"

namespace estrain::kernels::portable {
namespace {

PoolingArguments arguments_of(const PoolingShape& s) {
  PoolingArguments a = {};
  a.planes = s.planes;
  a.h = {s.height, s.output_height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height};
  a.w = {s.width, s.output_width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width};
  a.count_include_pad = s.count_include_pad;
  a.divisor_override = s.divisor_override;
  return a;
}

PoolingArguments arguments_of(const AdaptivePoolingShape& s) {
  PoolingArguments a = {};
  a.planes = s.planes;
  a.h = {s.height, s.output_height, 0, 0, 0, 0};
  a.w = {s.width, s.output_width, 0, 0, 0, 0};
  return a;
}

// Whether all windows are equal and adjacent. The pool is then an average pool, which is vectorised.
bool is_regular(const AdaptivePoolingShape& s) {
  return s.output_height > 0 && s.output_width > 0 && s.height > 0 && s.width > 0 && s.height % s.output_height == 0 &&
         s.width % s.output_width == 0;
}

PoolingShape regular(const AdaptivePoolingShape& s) {
  PoolingShape out;
  out.planes = s.planes;
  out.height = s.height;
  out.width = s.width;
  out.output_height = s.output_height;
  out.output_width = s.output_width;
  out.kernel_height = out.stride_height = s.height / s.output_height;
  out.kernel_width = out.stride_width = s.width / s.output_width;
  return out;
}

// For both kinds of windows: max pooling needs only the indices of a window.
template <typename Shape>
PoolingArguments max_backward_arguments(float* dx, const float* dy, const int64_t* indices, const Shape& shape) {
  PoolingArguments a = arguments_of(shape);
  a.dx = dx;
  a.dy = dy;
  a.indices = const_cast<int64_t*>(indices);  // read only, in backward
  return a;
}

}  // namespace

void max_pool(float* y, int64_t* indices, const float* x, const PoolingShape& shape, const Execution& execution) {
  PoolingArguments a = arguments_of(shape);
  a.y = y;
  a.indices = indices;
  a.x = x;
  pooling_loops_of(execution).max(a, execution);
}

void max_pool_backward(float* dx, const float* dy, const int64_t* indices, const PoolingShape& shape,
                       const Execution& execution) {
  pooling_loops_of(execution).max_backward(max_backward_arguments(dx, dy, indices, shape), execution);
}

void average_pool(float* y, const float* x, const PoolingShape& shape, const Execution& execution) {
  PoolingArguments a = arguments_of(shape);
  a.y = y;
  a.x = x;
  pooling_loops_of(execution).average(a, execution);
}

void average_pool_backward(float* dx, const float* dy, const PoolingShape& shape, const Execution& execution) {
  PoolingArguments a = arguments_of(shape);
  a.dx = dx;
  a.dy = dy;
  pooling_loops_of(execution).average_backward(a, execution);
}

void adaptive_average_pool(float* y, const float* x, const AdaptivePoolingShape& shape, const Execution& execution) {
  if (is_regular(shape)) return average_pool(y, x, regular(shape), execution);
  PoolingArguments a = arguments_of(shape);
  a.y = y;
  a.x = x;
  pooling_loops_of(execution).adaptive_average(a, execution);
}

void adaptive_average_pool_backward(float* dx, const float* dy, const AdaptivePoolingShape& shape,
                                    const Execution& execution) {
  if (is_regular(shape)) return average_pool_backward(dx, dy, regular(shape), execution);
  PoolingArguments a = arguments_of(shape);
  a.dx = dx;
  a.dy = dy;
  pooling_loops_of(execution).adaptive_average_backward(a, execution);
}

void adaptive_max_pool(float* y, int64_t* indices, const float* x, const AdaptivePoolingShape& shape,
                       const Execution& execution) {
  PoolingArguments a = arguments_of(shape);
  a.y = y;
  a.indices = indices;
  a.x = x;
  pooling_loops_of(execution).adaptive_max(a, execution);
}

void adaptive_max_pool_backward(float* dx, const float* dy, const int64_t* indices, const AdaptivePoolingShape& shape,
                                const Execution& execution) {
  pooling_loops_of(execution).adaptive_max_backward(max_backward_arguments(dx, dy, indices, shape), execution);
}

}  // namespace estrain::kernels::portable
