#include "kernels/portable/upsample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/portable/loops/upsample.h"

namespace estrain::kernels::portable {
namespace {

// What the outputs of a dimension read.
struct Axis {
  int64_t in, out;
  std::vector<int64_t> first, second;
  std::vector<float> first_weight, second_weight;
  bool doubled = false;

  Axis(int64_t inputs, int64_t outputs) : in(inputs), out(outputs), first(static_cast<size_t>(outputs)) {}
  UpsampleAxis view() const {
    return {in, out, first.data(), second.data(), first_weight.data(), second_weight.data(), doubled};
  }
};

float scale_of(int64_t in, int64_t out, double factor) {
  return factor > 0 ? static_cast<float>(1 / factor) : static_cast<float>(in) / static_cast<float>(out);
}

Axis nearest_axis(int64_t in, int64_t out, double factor) {
  Axis axis(in, out);
  const float scale = scale_of(in, out, factor);
  axis.doubled = out == 2 * in;
  for (int64_t o = 0; o < out; ++o) {
    const auto read = static_cast<int64_t>(std::floor(static_cast<float>(o) * scale));
    axis.first[static_cast<size_t>(o)] = out == in ? o : axis.doubled ? o / 2 : std::min(read, in - 1);
  }
  return axis;
}

float real_position(int64_t o, float scale, bool align_corners) {
  if (align_corners) return static_cast<float>(o) * scale;
  return std::max((static_cast<float>(o) + 0.5f) * scale - 0.5f, 0.0f);
}

Axis bilinear_axis(int64_t in, int64_t out, double factor, bool align_corners) {
  Axis axis(in, out);
  float scale = scale_of(in, out, factor);
  if (align_corners) scale = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  for (int64_t o = 0; o < out; ++o) {
    const float real = real_position(o, scale, align_corners);
    const int64_t first = std::min(static_cast<int64_t>(std::floor(real)), in - 1);
    const float b = std::min(std::max(real - static_cast<float>(first), 0.0f), 1.0f);
    axis.first[static_cast<size_t>(o)] = first;
    axis.second.push_back(std::min(first + 1, in - 1));
    axis.first_weight.push_back(1 - b);
    axis.second_weight.push_back(b);
  }
  return axis;
}

// The rows' and the columns' axes of a shape, by one of the two rules.
struct Axes {
  Axis h, w;

  static Axes nearest(const UpsampleShape& s) {
    return {nearest_axis(s.height, s.output_height, s.factor_height),
            nearest_axis(s.width, s.output_width, s.factor_width)};
  }
  static Axes bilinear(const UpsampleShape& s) {
    return {bilinear_axis(s.height, s.output_height, s.factor_height, s.align_corners),
            bilinear_axis(s.width, s.output_width, s.factor_width, s.align_corners)};
  }
  UpsampleArguments forward(int64_t planes, float* y, const float* x) const {
    return {planes, h.view(), w.view(), x, nullptr, y, nullptr};
  }
  UpsampleArguments backward(int64_t planes, float* dx, const float* dy) const {
    return {planes, h.view(), w.view(), nullptr, dy, nullptr, dx};
  }
};

}  // namespace

void upsample_nearest(float* y, const float* x, const UpsampleShape& shape, const Execution& execution) {
  const Axes axes = Axes::nearest(shape);
  upsample_loops(execution.isa).nearest(axes.forward(shape.planes, y, x), execution);
}

void upsample_nearest_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution) {
  const Axes axes = Axes::nearest(shape);
  upsample_loops(execution.isa).nearest_backward(axes.backward(shape.planes, dx, dy), execution);
}

void upsample_bilinear(float* y, const float* x, const UpsampleShape& shape, const Execution& execution) {
  const Axes axes = Axes::bilinear(shape);
  upsample_loops(execution.isa).bilinear(axes.forward(shape.planes, y, x), execution);
}

void upsample_bilinear_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution) {
  const Axes axes = Axes::bilinear(shape);
  upsample_loops(execution.isa).bilinear_backward(axes.backward(shape.planes, dx, dy), execution);
}

}  // namespace estrain::kernels::portable
