// Pooling over two dimensions (kernels/portable/pooling.h).

#include "kernels/portable/pooling.h"

#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>

#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;
namespace portable = kernels::portable;

int64_t first(IntArrayRef values) { return values[0]; }
int64_t second(IntArrayRef values) { return values.size() == 1 ? values[0] : values[1]; }

struct Window {
  IntArrayRef kernel, stride, padding, dilation;
  bool ceil_mode;
};

// `x` is [channels, height, width] or [n, channels, height, width].
portable::PoolingShape shape_of(const char* name, const Tensor& x, const Window& window) {
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, name, ": expected an image of 3 or 4 dimensions, got ", x.sizes());
  const IntArrayRef stride = window.stride.empty() ? window.kernel : window.stride;
  portable::PoolingShape shape;
  shape.height = x.size(-2);
  shape.width = x.size(-1);
  shape.planes = shape.height * shape.width == 0 ? 0 : x.numel() / (shape.height * shape.width);
  shape.kernel_height = first(window.kernel);
  shape.kernel_width = second(window.kernel);
  shape.stride_height = first(stride);
  shape.stride_width = second(stride);
  shape.padding_height = first(window.padding);
  shape.padding_width = second(window.padding);
  shape.dilation_height = first(window.dilation);
  shape.dilation_width = second(window.dilation);
  shape.output_height =
      at::native::pooling_output_shape<int64_t>(shape.height, shape.kernel_height, shape.padding_height,
                                                shape.stride_height, shape.dilation_height, window.ceil_mode);
  shape.output_width = at::native::pooling_output_shape<int64_t>(
      shape.width, shape.kernel_width, shape.padding_width, shape.stride_width, shape.dilation_width, window.ceil_mode);
  TORCH_CHECK(shape.output_height > 0 && shape.output_width > 0, name, ": an image of ", x.sizes(),
              " is too small for the window");
  return shape;
}

std::vector<int64_t> output_sizes(const Tensor& x, int64_t height, int64_t width) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[sizes.size() - 2] = height;
  sizes[sizes.size() - 1] = width;
  return sizes;
}

Tensor new_indices(IntArrayRef sizes, const Tensor& like) { return at::empty(sizes, like.options().dtype(at::kLong)); }

std::tuple<Tensor, Tensor> max_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                    IntArrayRef dilation, bool ceil_mode) {
  const Tensor x = floats("max_pool2d_with_indices", self);
  const portable::PoolingShape shape =
      shape_of("max_pool2d_with_indices", x, {kernel, stride, padding, dilation, ceil_mode});
  const std::vector<int64_t> sizes = output_sizes(x, shape.output_height, shape.output_width);
  Tensor y = new_floats(sizes, x), indices = new_indices(sizes, x);
  portable::max_pool(y.mutable_data_ptr<float>(), indices.mutable_data_ptr<int64_t>(), x.const_data_ptr<float>(), shape,
                     execution_on(x));
  return {in_format_of(y, self), in_format_of(indices, self)};
}

Tensor max_pool_backward(const Tensor& gradient, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices) {
  constexpr const char* name = "max_pool2d_with_indices_backward";
  const Tensor dy = floats(name, gradient), chosen = indices.contiguous();
  const portable::PoolingShape shape = shape_of(name, self, {kernel, stride, padding, dilation, ceil_mode});
  Tensor dx = new_like(self);
  portable::max_pool_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                              chosen.const_data_ptr<int64_t>(), shape, execution_on(dy, chosen));
  return in_format_of(dx, self);
}

Tensor average_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                    bool count_include_pad, std::optional<int64_t> divisor) {
  const Tensor x = floats("avg_pool2d", self);
  portable::PoolingShape shape = shape_of("avg_pool2d", x, {kernel, stride, padding, {1}, ceil_mode});
  shape.count_include_pad = count_include_pad;
  shape.divisor_override = divisor.value_or(0);
  Tensor y = new_floats(output_sizes(x, shape.output_height, shape.output_width), x);
  portable::average_pool(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(), shape, execution_on(x));
  return in_format_of(y, self);
}

Tensor average_pool_backward(const Tensor& gradient, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                             IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                             std::optional<int64_t> divisor) {
  const Tensor dy = floats("avg_pool2d_backward", gradient);
  portable::PoolingShape shape = shape_of("avg_pool2d_backward", self, {kernel, stride, padding, {1}, ceil_mode});
  shape.count_include_pad = count_include_pad;
  shape.divisor_override = divisor.value_or(0);
  Tensor dx = new_like(self);
  portable::average_pool_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), shape, execution_on(dy));
  return in_format_of(dx, self);
}

portable::AdaptivePoolingShape adaptive_shape(const Tensor& x, int64_t height, int64_t width) {
  const int64_t pixels = x.size(-2) * x.size(-1);
  return {pixels == 0 ? 0 : x.numel() / pixels, x.size(-2), x.size(-1), height, width};
}

Tensor adaptive_average_pool(const Tensor& self, IntArrayRef output) {
  const Tensor x = floats("_adaptive_avg_pool2d", self);
  Tensor y = new_floats(output_sizes(x, first(output), second(output)), x);
  portable::adaptive_average_pool(y.mutable_data_ptr<float>(), x.const_data_ptr<float>(),
                                  adaptive_shape(x, first(output), second(output)), execution_on(x));
  return in_format_of(y, self);
}

Tensor adaptive_average_pool_backward(const Tensor& gradient, const Tensor& self) {
  const Tensor dy = floats("_adaptive_avg_pool2d_backward", gradient);
  Tensor dx = new_like(self);
  portable::adaptive_average_pool_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                           adaptive_shape(self, dy.size(-2), dy.size(-1)), execution_on(dy));
  return in_format_of(dx, self);
}

std::tuple<Tensor, Tensor> adaptive_max_pool(const Tensor& self, IntArrayRef output) {
  const Tensor x = floats("adaptive_max_pool2d", self);
  const std::vector<int64_t> sizes = output_sizes(x, first(output), second(output));
  Tensor y = new_floats(sizes, x), indices = new_indices(sizes, x);
  portable::adaptive_max_pool(y.mutable_data_ptr<float>(), indices.mutable_data_ptr<int64_t>(),
                              x.const_data_ptr<float>(), adaptive_shape(x, first(output), second(output)),
                              execution_on(x));
  return {in_format_of(y, self), in_format_of(indices, self)};
}

Tensor adaptive_max_pool_backward(const Tensor& gradient, const Tensor& self, const Tensor& indices) {
  const Tensor dy = floats("adaptive_max_pool2d_backward", gradient), chosen = indices.contiguous();
  Tensor dx = new_like(self);
  portable::adaptive_max_pool_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                       chosen.const_data_ptr<int64_t>(), adaptive_shape(self, dy.size(-2), dy.size(-1)),
                                       execution_on(dy, chosen));
  return in_format_of(dx, self);
}

}  // namespace

void register_pooling(OperatorRegistry& registry) {
  registry.replace("max_pool2d_with_indices", max_pool);
  registry.replace("max_pool2d_with_indices_backward", max_pool_backward);
  registry.replace("avg_pool2d", average_pool);
  registry.replace("avg_pool2d_backward", average_pool_backward);
  registry.replace("_adaptive_avg_pool2d", adaptive_average_pool);
  registry.replace("_adaptive_avg_pool2d_backward", adaptive_average_pool_backward);
  registry.replace("adaptive_max_pool2d", adaptive_max_pool);
  registry.replace("adaptive_max_pool2d_backward", adaptive_max_pool_backward);
}

}  // namespace estrain::operators
