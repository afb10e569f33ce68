#pragma once
// Maximum, average and adaptive pooling over two dimensions, forward and backward.
//
// Inputs are [planes, height, width] (planes = batch * channels), outputs [planes, output_height, output_width], both
// contiguous. The caller gives the output size, so it decides on rounding up (ceil_mode). Window (oh, ow) has its tap
// (r, s) at input position (oh * stride_height - padding_height + r * dilation_height, the same for width).
//
// Maximum. Taps in padding do not exist. In order (r, s), a tap replaces the maximum if it is larger or NaN, so the
// first of equal maxima wins, and only a later NaN replaces a NaN. The maximum starts as -infinity at the window's
// first existing tap; a window without taps gives -infinity with index -1. Indices are h * width + w in the plane.
// Backward: dx is, from +0, the sum of the dy of the windows that chose this input, in order (oh, ow).
//
// Average. sum = from +0, the existing taps added in order (r, s); y = sum / divisor, one IEEE division. divisor is
// divisor_override, or the number of the window's taps inside the plane, or with count_include_pad inside the padded
// plane (that is, before height + padding_height and width + padding_width), each dimension's number at least 1.
// Backward: dx is, from +0, the sum of dy / divisor over the windows with this input, in order (oh, ow).
//
// Adaptive. Window oh covers the rows [floor(oh * height / output_height), ceil((oh + 1) * height / output_height)),
// columns likewise. Average: the same sums with divisor = rows * columns, as a float. Maximum: the same rule as above.
//
// NaN and infinities propagate as this arithmetic implies; zero taps cannot change a sum that starts from +0.
//
// Sources: PyTorch's documentation of MaxPool2d, AvgPool2d, AdaptiveAvgPool2d (for the taps of a window).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct PoolingShape {
  int64_t planes = 0;
  int64_t height = 0, width = 0;
  int64_t output_height = 0, output_width = 0;
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t padding_height = 0, padding_width = 0;    // less than the window's extent
  int64_t dilation_height = 1, dilation_width = 1;  // maximum only
  bool count_include_pad = true;                    // average only
  int64_t divisor_override = 0;                     // average only; 0: none
};

void max_pool(float* y, int64_t* indices, const float* x, const PoolingShape& shape, const Execution& execution = {});
// indices: those of max_pool; likewise below.
void max_pool_backward(float* dx, const float* dy, const int64_t* indices, const PoolingShape& shape,
                       const Execution& execution = {});
void average_pool(float* y, const float* x, const PoolingShape& shape, const Execution& execution = {});
void average_pool_backward(float* dx, const float* dy, const PoolingShape& shape, const Execution& execution = {});

struct AdaptivePoolingShape {
  int64_t planes = 0;
  int64_t height = 0, width = 0;
  int64_t output_height = 0, output_width = 0;
};

void adaptive_average_pool(float* y, const float* x, const AdaptivePoolingShape& shape,
                           const Execution& execution = {});
void adaptive_average_pool_backward(float* dx, const float* dy, const AdaptivePoolingShape& shape,
                                    const Execution& execution = {});
void adaptive_max_pool(float* y, int64_t* indices, const float* x, const AdaptivePoolingShape& shape,
                       const Execution& execution = {});
void adaptive_max_pool_backward(float* dx, const float* dy, const int64_t* indices, const AdaptivePoolingShape& shape,
                                const Execution& execution = {});

}  // namespace estrain::kernels::portable
