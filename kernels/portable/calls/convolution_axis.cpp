#include "kernels/portable/convolution_axis.h"

#include <algorithm>

namespace estrain::kernels::portable {

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
int64_t ceil_divide(int64_t a, int64_t b) { return -floor_divide(-a, b); }

Taps ConvolutionAxis::forward_taps() const {
  Taps taps;
  for (int64_t r = 0; r < filter; ++r) {
    const int64_t position = r * dilation - padding;
    const int64_t first = std::max<int64_t>(0, ceil_divide(-position, stride));
    const int64_t last = std::min(output - 1, floor_divide(size - 1 - position, stride));
    const int64_t shift = floor_divide(position, stride);
    if (first <= last) taps.push_back({.tap = r, .phase = position - shift * stride, .shift = shift});
  }
  return taps;
}

Taps ConvolutionAxis::backward_taps(int64_t phase) const {
  Taps taps;
  for (int64_t r = 0; r < filter; ++r) {
    const int64_t position = phase + padding - r * dilation;
    const int64_t shift = floor_divide(position, stride);
    if (shift * stride != position) continue;
    const int64_t first = std::max<int64_t>(0, -shift), last = std::min(phase_size(phase), output - shift) - 1;
    if (first <= last) taps.push_back({.tap = r, .phase = 0, .shift = shift});
  }
  return taps;
}

int64_t ConvolutionAxis::phase_size(int64_t phase) const {
  return phase >= size ? 0 : (size - phase + stride - 1) / stride;
}

ConvolutionAxes axes_of(const Convolution& shape) {
  return {{shape.height, shape.output_height(), shape.filter_height, shape.stride_height, shape.padding_height,
           shape.dilation_height},
          {shape.width, shape.output_width(), shape.filter_width, shape.stride_width, shape.padding_width,
           shape.dilation_width}};
}

}  // namespace estrain::kernels::portable
