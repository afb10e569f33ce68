#pragma once
// Convolution that filters each input channel separately (groups = channels), forward and both backward parts.
//
// x is [n, channels, height, width], y and dy are [n, channels * multiplier, output_height, output_width], filters and
// dfilters [channels * multiplier, 1, kernel_height, kernel_width], all contiguous. Output channel o reads input
// channel o / multiplier. The caller gives the output size. The bits are those of convolution.h with groups = channels.
//
// Output (oh, ow) reads with tap (r, s) the input (oh * stride_height - padding_height + r * dilation_height, the same
// for width). Every sum below is a dot product: its terms run in order, in blocks of 256 (block.h), each block one
// chain of fused multiply-adds from +0; the first block's sum is the first total, later ones are added to it in order.
// A sum without terms is +0. Padding is a zero term: fma(+0, factor, chain), so an infinite or NaN factor shows. A row
// r of taps that reads padding for every output (which depends only on the sizes) gives no terms; likewise a column s.
//
// Forward: terms x * filter in order (r, s); bias[o], if there is one, is added to the total.
// Backward data: dx[h, w] takes terms dy * filter in order (j, r, s), j < multiplier, o = c * multiplier + j, over the
//   taps (r, s) that some output reading this residue of (h + padding_height) mod stride_height could use: those where
//   h + padding_height - r * dilation_height is a multiple of stride_height, likewise for width. If the quotient lies
//   outside dy, the term is a zero term. A row r for which it lies outside for every h of the same residue gives no
//   terms; likewise a column s.
// Backward filter: dfilter[o, r, s] takes terms x * dy in order (n, oh, ow); a tap without terms gives a sum without
// terms. The bias's gradient is a sum and not computed here.
//
// NaN and infinities propagate as this arithmetic implies.

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct DepthwiseShape {
  int64_t n = 0;
  int64_t channels = 0;
  int64_t multiplier = 1;  // output channels per input channel
  int64_t height = 0, width = 0;
  int64_t output_height = 0, output_width = 0;
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t padding_height = 0, padding_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;
};

// bias is [channels * multiplier], or null.
void depthwise_forward(float* y, const float* x, const float* filters, const float* bias, const DepthwiseShape& shape,
                       const Execution& execution = {});
void depthwise_backward_data(float* dx, const float* dy, const float* filters, const DepthwiseShape& shape,
                             const Execution& execution = {});
void depthwise_backward_filter(float* dfilters, const float* dy, const float* x, const DepthwiseShape& shape,
                               const Execution& execution = {});

}  // namespace estrain::kernels::portable
