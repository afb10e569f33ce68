#pragma once
// Two-dimensional convolution (strictly, cross-correlation) and its backward parts; fp32. A convolution of height 1 is
// one-dimensional.
//
//   x, dx  [batch, channels_in, height, width]                                contiguous, as all tensors here
//   w, dw  [channels_out, channels_in / groups, filter_height, filter_width]
//   y, dy  [batch, channels_out, output_height(), output_width()]
//   bias   [channels_out]
//
// Output (oh, ow) reads through tap (r, s) the input position
//   ih = oh * stride_height - padding_height + r * dilation_height,  iw likewise;
// outside the image it reads padding. Output channel k belongs to group k / (channels_out / groups) and reads only the
// channels_in / groups input channels of its group.
//
// Order of summation. Each output element is one dot product, the terms in the order below, cut into blocks of kBlock
// (block.h) consecutive terms: within a block fused multiply-adds from +0, the blocks' sums added in order. No terms:
// +0.
//
//   forward          y[n,k,oh,ow]   terms (c, r, s): x[n,c,ih,iw] * w[k,c,r,s]; then, rounded apart, + bias[k]
//   backward data    dx[n,c,ih,iw]  terms (k, r, s): dy[n,k,oh,ow] * w[k,c,r,s] over the taps with
//                                   ih + padding_height - r * dilation_height = oh * stride_height for an integer oh,
//                                   iw likewise: which ones depends on (ih mod stride_height, iw mod stride_width), the
//                                   phase of the position
//   backward filter  dw[k,c,r,s]    terms (n, oh, ow): x[n,c,ih,iw] * dy[n,k,oh,ow]
//   backward bias    db[k]          the sum of dy[n,k,oh,ow] over (n, oh, ow) as one sequence, in blocks of 4096:
//                                   element i of a block goes to lane i mod 32, each lane adds its elements in order
//                                   from +0, lanes are combined pairwise (l with l + 16, then + 8, + 4, + 2, + 1), the
//                                   blocks' sums added in order
//
// (c counts within the group; the last index runs fastest.)
//
// Padding. A term that reads outside x (backward data: outside dy) has +0 there: fma(+0, w, sum), so an infinite or NaN
// weight still shows. But rows and columns of the filter that no position can use are not terms, depending only on
// shapes:
//   forward          filter row r is left out if ih is outside the image for every oh; columns likewise
//   backward data    per phase: row r is left out if oh is outside dy for every ih of that phase; columns likewise
//   backward filter  every (n, oh, ow) is a term of every tap, except that a row r or column s left out in the forward
//                    direction has dw = +0
//
// NaN, infinities, -0 and denormals follow IEEE arithmetic; the payload of a NaN is unspecified. The bits depend on
// neither instruction set nor threads. A depthwise convolution (groups == channels_in > 1) has the same order; its
// loops are depthwise.h's.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

// Sizes are at least 0, strides at least 1. The padded image may be smaller than the filter; then there is no
// output.
struct Convolution {
  int64_t batch = 0;
  int64_t channels_in = 0;
  int64_t height = 1, width = 1;  // of the input image
  int64_t channels_out = 0;
  int64_t filter_height = 1, filter_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t padding_height = 0, padding_width = 0;  // zeros on each side
  int64_t dilation_height = 1, dilation_width = 1;
  int64_t groups = 1;  // divides channels_in and channels_out

  int64_t output_height() const;
  int64_t output_width() const;
};

// The number of positions of the filter along one axis; 0 if the filter does not fit.
int64_t convolution_output_size(int64_t size, int64_t filter, int64_t stride, int64_t padding, int64_t dilation);

// y = x * w + bias. `bias` may be null: then nothing is added.
void convolution_forward(const Convolution& shape, const float* x, const float* w, const float* bias, float* y,
                         const Execution& execution);
// dx from dy.
void convolution_backward_data(const Convolution& shape, const float* dy, const float* w, float* dx,
                               const Execution& execution);
// dw from x and dy.
void convolution_backward_filter(const Convolution& shape, const float* x, const float* dy, float* dw,
                                 const Execution& execution);
// db from dy.
void convolution_backward_bias(const Convolution& shape, const float* dy, float* db, const Execution& execution);

}  // namespace estrain::kernels::portable
