// Nearest and bilinear upsampling of images, nearest of sequences (kernels/portable/upsample.h).

#include <array>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/upsample.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Factor = std::optional<double>;
namespace portable = kernels::portable;

// `input` and `output` end with height and width.
portable::UpsampleShape shape_of(IntArrayRef input, IntArrayRef output, Factor factor_height, Factor factor_width) {
  portable::UpsampleShape shape;
  shape.planes = input[0] * input[1];
  shape.height = input[2];
  shape.width = input[3];
  shape.output_height = output[0];
  shape.output_width = output[1];
  shape.factor_height = factor_height.value_or(0);
  shape.factor_width = factor_width.value_or(0);
  return shape;
}

Tensor nearest(const Tensor& self, IntArrayRef output, Factor height, Factor width) {
  const Tensor x = floats("upsample_nearest2d", self);
  Tensor y = new_floats({x.size(0), x.size(1), output[0], output[1]}, x);
  portable::upsample_nearest(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(),
                             shape_of(x.sizes(), output, height, width), execution_on(x));
  return in_format_of(y, self);
}

Tensor nearest_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, Factor height, Factor width) {
  const Tensor dy = floats("upsample_nearest2d_backward", gradient);
  Tensor dx = new_floats(input, dy);
  portable::upsample_nearest_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                      shape_of(input, output, height, width), execution_on(dy));
  return in_format_of(dx, gradient);
}

// One dimension: images of height 1.
Tensor nearest_line(const Tensor& self, IntArrayRef output, Factor factor) {
  return nearest(self.unsqueeze(2), {1, output[0]}, 1.0, factor).squeeze(2);
}
Tensor nearest_line_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, Factor factor) {
  const std::array<int64_t, 4> sizes = {input[0], input[1], 1, input[2]};
  return nearest_backward(gradient.unsqueeze(2), {1, output[0]}, sizes, 1.0, factor).squeeze(2);
}
Tensor& nearest_line_out(const Tensor& self, IntArrayRef output, Factor factor, Tensor& out) {
  return give(nearest_line(self, output, factor), out);
}
Tensor& nearest_line_backward_out(const Tensor& gradient, IntArrayRef output, IntArrayRef input, Factor factor,
                                  Tensor& out) {
  return give(nearest_line_backward(gradient, output, input, factor), out);
}

Tensor bilinear(const Tensor& self, IntArrayRef output, bool align_corners, Factor height, Factor width) {
  const Tensor x = floats("upsample_bilinear2d", self);
  portable::UpsampleShape shape = shape_of(x.sizes(), output, height, width);
  shape.align_corners = align_corners;
  Tensor y = new_floats({x.size(0), x.size(1), output[0], output[1]}, x);
  portable::upsample_bilinear(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape, execution_on(x));
  return in_format_of(y, self);
}

Tensor bilinear_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                         Factor height, Factor width) {
  const Tensor dy = floats("upsample_bilinear2d_backward", gradient);
  portable::UpsampleShape shape = shape_of(input, output, height, width);
  shape.align_corners = align_corners;
  Tensor dx = new_floats(input, dy);
  portable::upsample_bilinear_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), shape,
                                       execution_on(dy));
  return in_format_of(dx, gradient);
}

}  // namespace

void register_upsampling(OperatorRegistry& registry) {
  registry.replace("upsample_nearest1d", nearest_line);
  registry.replace("upsample_nearest1d.out", nearest_line_out);
  registry.replace("upsample_nearest1d_backward", nearest_line_backward);
  registry.replace("upsample_nearest1d_backward.grad_input", nearest_line_backward_out);
  registry.replace("upsample_nearest2d", nearest);
  registry.replace("upsample_nearest2d_backward", nearest_backward);
  registry.replace("upsample_bilinear2d", bilinear);
  registry.replace("upsample_bilinear2d_backward", bilinear_backward);
}

}  // namespace estrain::operators
