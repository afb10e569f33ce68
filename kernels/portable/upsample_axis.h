#pragma once
// The inputs of upsample.h's outputs along one dimension, for CPU and CUDA code alike.

#include <stdint.h>

#include "kernels/host_device.h"

namespace estrain::kernels::portable {

// One dimension: its sizes and its scale.
struct ResizedAxis {
  int64_t in, out;
  float scale;
  bool align_corners;
};

// `factor`: out divided by in, as the model names the factor; 0: no factor named, so the sizes give the scale.
static inline ResizedAxis resized_axis(int64_t in, int64_t out, double factor, bool align_corners) {
  float scale = factor > 0 ? static_cast<float>(1 / factor) : static_cast<float>(in) / static_cast<float>(out);
  if (align_corners) scale = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  return {in, out, scale, align_corners};
}

// The input read by output `o`, nearest.
ESTRAIN_HOST_DEVICE static inline int64_t nearest_input(const ResizedAxis& axis, int64_t o) {
  if (axis.out == axis.in) return o;
  if (axis.out == 2 * axis.in) return o / 2;
  const auto read = static_cast<int64_t>(static_cast<float>(o) * axis.scale);  // not negative: rounded down
  return read < axis.in - 1 ? read : axis.in - 1;
}

// The two inputs read by output `o`, bilinear, and their weights, with the sum 1. `second` is `first` at the far edge.
struct BilinearInputs {
  int64_t first, second;
  float first_weight, second_weight;
};
ESTRAIN_HOST_DEVICE static inline BilinearInputs bilinear_inputs(const ResizedAxis& axis, int64_t o) {
  float real = static_cast<float>(o) * axis.scale;
  if (!axis.align_corners) {
    real = (static_cast<float>(o) + 0.5f) * axis.scale - 0.5f;
    real = real < 0.0f ? 0.0f : real;
  }
  const auto below = static_cast<int64_t>(real);  // not negative: rounded down
  const int64_t first = below < axis.in - 1 ? below : axis.in - 1;
  const float rest = real - static_cast<float>(first), bounded = rest < 0.0f ? 0.0f : rest;
  const float b = bounded < 1.0f ? bounded : 1.0f;
  return {first, first + 1 < axis.in - 1 ? first + 1 : axis.in - 1, 1 - b, b};
}

}  // namespace estrain::kernels::portable
