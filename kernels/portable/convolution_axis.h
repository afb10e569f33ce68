#pragma once
// One axis of a convolution: which rows (or columns) of the filter count, and which elements they read.

#include <vector>

#include "kernels/portable/convolution.h"

namespace estrain::kernels::portable {

// A counted filter row or column: it reads element (position + shift) of grid phase `phase`.
struct AxisTap {
  int64_t tap, phase, shift;
};
using Taps = std::vector<AxisTap>;

struct ConvolutionAxis {
  int64_t size, output, filter, stride, padding, dilation;

  // The taps that read the image for some output: output o reads element (o + shift) * stride + phase of it.
  Taps forward_taps() const;
  // The taps that read element i * stride + phase of the image, for some i: it takes from output element i + shift.
  Taps backward_taps(int64_t phase) const;
  // The number of the image's elements in a phase.
  int64_t phase_size(int64_t phase) const;
};

struct ConvolutionAxes {
  ConvolutionAxis rows, columns;
};
ConvolutionAxes axes_of(const Convolution& shape);

int64_t floor_divide(int64_t a, int64_t b);  // b > 0
int64_t ceil_divide(int64_t a, int64_t b);

}  // namespace estrain::kernels::portable
