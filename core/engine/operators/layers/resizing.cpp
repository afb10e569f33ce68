// Resizing of images and sequences: nearest and bilinear upsampling of images, nearest of sequences
// (kernels/portable/upsample.h), and the gradient of padding.
//
// Padding repeats or mirrors an image's edge: every position gets the gradients of all places with a copy of the
// position, added in the order of the places (kernels/portable/embedding.h). LibTorch's own padding, applied to the
// positions' numbers, tells the places.

#include <ATen/ops/arange.h>
#include <ATen/ops/reflection_pad1d.h>
#include <ATen/ops/reflection_pad2d.h>
#include <ATen/ops/replication_pad1d.h>
#include <ATen/ops/replication_pad2d.h>

#include <array>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"
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

constexpr int64_t kMostPositions = int64_t{1} << 24;  // whole numbers that a float holds

using Padding = Tensor (*)(const Tensor&, IntArrayRef);

template <Padding pad, int64_t dims>
Tensor backward(const Tensor& gradient, const Tensor& self, IntArrayRef padding) {
  require_float("padding_backward", gradient);
  const IntArrayRef image = self.sizes().slice(static_cast<size_t>(self.dim() - dims));
  const int64_t positions = c10::multiply_integers(image);
  TORCH_CHECK(positions <= kMostPositions, "the gradient of padding: an image of ", positions, " positions");
  std::vector<int64_t> one = {1};
  one.insert(one.end(), image.begin(), image.end());
  const Tensor numbers = at::arange(positions, self.options()).view(one);
  const Tensor copied_from = pad(numbers, padding).reshape({-1}).to(at::kLong);
  const Tensor by_place = gradient.reshape({-1, copied_from.numel()}).t();
  return in_format_of(in_rows(sum_into_rows(by_place, copied_from, positions).t().reshape(self.sizes())), self);
}

template <Padding pad, int64_t dims>
Tensor& backward_out(const Tensor& gradient, const Tensor& self, IntArrayRef padding, Tensor& out) {
  return give(backward<pad, dims>(gradient, self, padding), out);
}

template <Padding pad, int64_t dims>
void replace_backward(OperatorRegistry& registry, const std::string& name) {
  registry.replace(name, backward<pad, dims>);
  registry.replace(name + ".grad_input", backward_out<pad, dims>);
}

}  // namespace

void register_resizing(OperatorRegistry& registry) {
  registry.replace("upsample_nearest1d", nearest_line);
  registry.replace("upsample_nearest1d.out", nearest_line_out);
  registry.replace("upsample_nearest1d_backward", nearest_line_backward);
  registry.replace("upsample_nearest1d_backward.grad_input", nearest_line_backward_out);
  registry.replace("upsample_nearest2d", nearest);
  registry.replace("upsample_nearest2d_backward", nearest_backward);
  registry.replace("upsample_bilinear2d", bilinear);
  registry.replace("upsample_bilinear2d_backward", bilinear_backward);
  replace_backward<at::reflection_pad1d, 1>(registry, "reflection_pad1d_backward");
  replace_backward<at::reflection_pad2d, 2>(registry, "reflection_pad2d_backward");
  replace_backward<at::replication_pad1d, 1>(registry, "replication_pad1d_backward");
  replace_backward<at::replication_pad2d, 2>(registry, "replication_pad2d_backward");
}

}  // namespace estrain::operators
