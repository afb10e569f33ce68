#pragma once
// An axis of a convolution: the rows (or columns) of the filter that count, and the elements read by them.

#include <vector>

#include "kernels/portable/convolution.h"

namespace estrain::kernels::portable {

// A counted filter row or column. The tap reads element (position + shift) of grid phase `phase`.
struct AxisTap {
  int64_t tap, phase, shift;
};
using Taps = std::vector<AxisTap>;

struct ConvolutionAxis {
  int64_t size, output, filter, stride, padding, dilation;

  // Returns the taps that read the image for an output: output o reads image element (o + shift) * stride + phase.
  Taps forward_taps() const;
  // Returns the taps that read an image element i * stride + phase: the element takes from output element i + shift.
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
