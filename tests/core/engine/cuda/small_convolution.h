#pragma once
// A convolution with two groups, and different sizes, strides, paddings and dilations of its axes.

#include "kernels/pinned/convolution.h"

namespace estrain::cuda {

inline constexpr kernels::pinned::Pass kPasses[] = {kernels::pinned::Pass::forward, kernels::pinned::Pass::data,
                                                    kernels::pinned::Pass::filter};

inline kernels::pinned::ConvolutionProblem small_convolution(kernels::pinned::Pass pass) {
  kernels::pinned::ConvolutionProblem c;
  c.pass = pass;
  c.batch = 2;
  c.channels_in = 4;
  c.channels_out = 6;
  c.groups = 2;
  c.height = {.size = 9, .filter = 3, .stride = 2, .padding = 1, .dilation = 1};
  c.width = {.size = 8, .filter = 2, .stride = 1, .padding = 0, .dilation = 2};
  return c;
}

}  // namespace estrain::cuda
