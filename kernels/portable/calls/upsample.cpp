#include "kernels/portable/upsample.h"

#include <vector>

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/loops/upsample.h"
#include "kernels/portable/upsample_axis.h"

namespace estrain::kernels::portable {
namespace {

// The inputs of the outputs along a dimension.
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

Axis nearest_axis(int64_t in, int64_t out, double factor) {
  Axis axis(in, out);
  const ResizedAxis resized = resized_axis(in, out, factor, false);
  axis.doubled = out == 2 * in;
  for (int64_t o = 0; o < out; ++o) axis.first[static_cast<size_t>(o)] = nearest_input(resized, o);
  return axis;
}

Axis bilinear_axis(int64_t in, int64_t out, double factor, bool align_corners) {
  Axis axis(in, out);
  const ResizedAxis resized = resized_axis(in, out, factor, align_corners);
  for (int64_t o = 0; o < out; ++o) {
    const BilinearInputs inputs = bilinear_inputs(resized, o);
    axis.first[static_cast<size_t>(o)] = inputs.first;
    axis.second.push_back(inputs.second);
    axis.first_weight.push_back(inputs.first_weight);
    axis.second_weight.push_back(inputs.second_weight);
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
  if (execution.device != nullptr) return execution.device->kernels->upsample_nearest(y, x, shape, execution);
  const Axes axes = Axes::nearest(shape);
  upsample_loops(execution.isa).nearest(axes.forward(shape.planes, y, x), execution);
}

void upsample_nearest_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->upsample_nearest_backward(dx, dy, shape, execution);
  const Axes axes = Axes::nearest(shape);
  upsample_loops(execution.isa).nearest_backward(axes.backward(shape.planes, dx, dy), execution);
}

void upsample_bilinear(float* y, const float* x, const UpsampleShape& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->upsample_bilinear(y, x, shape, execution);
  const Axes axes = Axes::bilinear(shape);
  upsample_loops(execution.isa).bilinear(axes.forward(shape.planes, y, x), execution);
}

void upsample_bilinear_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->upsample_bilinear_backward(dx, dy, shape, execution);
  const Axes axes = Axes::bilinear(shape);
  upsample_loops(execution.isa).bilinear_backward(axes.backward(shape.planes, dx, dy), execution);
}

}  // namespace estrain::kernels::portable
