#pragma once
// Nearest-neighbour and bilinear resizing over two dimensions, forward and backward.
//
// Contiguous: inputs [planes, height, width] (planes = batch * channels), outputs [planes, output_height, output_width]
//
// Scale of a dimension with `in` inputs and `out` outputs, a float: with align_corners (in - 1) / (out - 1), or 0 for
// out <= 1; else float(1 / factor) if a factor is given (computed in double), or in / out.
//
// Nearest. Output o reads input o if out = in, o div 2 if out = 2 in, else min(floor(o * scale), in - 1), o as a float.
// Backward: dx is, from +0, the sum of the dy of the outputs that read this input, in order (oh, ow).
//
// Bilinear. Output o lies at real = o * scale with align_corners, else max((o + 0.5) * scale - 0.5, 0), each operation
// rounded to a float by itself. first = min(floor(real), in - 1), second = min(first + 1, in - 1),
// b = min(max(real - first, 0), 1), a = 1 - b. With (a, b) of the row called (ah, bh), of the column (aw, bw), and
// fma(a, b, c) = a * b + c rounded once:
//   top    = fma(bw, x[first row, second column], aw * x[first row, first column]), bottom likewise in the second row
//   y      = fma(bh, bottom, ah * top)
// Backward, in two steps, all from +0:
//   t[oh, .]: for ow in order: t[first] = fma(aw, dy[oh, ow], t[first]);
//             then t[second] = fma(bw, dy[oh, ow], t[second])
//   dx: for oh in order: dx[first row, .] = fma(ah, t[oh, .], dx[first row, .]); then the second row with bh
//
// NaN and infinities propagate as this arithmetic implies (0 * infinity is NaN, as in PyTorch).
//
// Sources: PyTorch's documentation of Upsample (for the inputs of an output).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

struct UpsampleShape {
  int64_t planes = 0;
  int64_t height = 0, width = 0;
  int64_t output_height = 0, output_width = 0;
  double factor_height = 0, factor_width = 0;  // output / input as given by the user; 0: not given
  bool align_corners = false;                  // bilinear only
};

void upsample_nearest(float* y, const float* x, const UpsampleShape& shape, const Execution& execution = {});
void upsample_nearest_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution = {});
void upsample_bilinear(float* y, const float* x, const UpsampleShape& shape, const Execution& execution = {});
void upsample_bilinear_backward(float* dx, const float* dy, const UpsampleShape& shape,
                                const Execution& execution = {});

}  // namespace estrain::kernels::portable
