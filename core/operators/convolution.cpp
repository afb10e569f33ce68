// Convolutions of one and two dimensions (kernels/portable/convolution.h).

#include "kernels/portable/convolution.h"

#include <array>
#include <tuple>

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Tensor;
using kernels::portable::Convolution;

// Of the last dimension, or of the one before it, which an image of one dimension does not have.
int64_t along_width(IntArrayRef values) { return values.back(); }
int64_t along_height(IntArrayRef values, int64_t dim, int64_t missing) {
  if (dim == 3) return missing;
  return values.size() == 1 ? values[0] : values[values.size() - 2];
}

struct Arguments {
  IntArrayRef stride, padding, dilation;
  bool transposed;
  int64_t groups;
};

Convolution shape_of(const char* name, const Tensor& input, const Tensor& weight, const Arguments& arguments) {
  const int64_t dim = input.dim();
  if (dim != 3 && dim != 4) refuse_case(name, "volumes");
  if (arguments.transposed) refuse_case(name, "transposed = true");
  TORCH_CHECK(weight.dim() == dim && input.size(1) == weight.size(1) * arguments.groups &&
                  weight.size(0) % arguments.groups == 0,
              name, ": filters of ", weight.sizes(), " do not fit an input of ", input.sizes());
  Convolution shape;
  shape.batch = input.size(0);
  shape.channels_in = input.size(1);
  shape.height = dim == 4 ? input.size(2) : 1;
  shape.width = input.size(dim - 1);
  shape.channels_out = weight.size(0);
  shape.filter_height = dim == 4 ? weight.size(2) : 1;
  shape.filter_width = weight.size(dim - 1);
  shape.stride_height = along_height(arguments.stride, dim, 1);
  shape.stride_width = along_width(arguments.stride);
  shape.padding_height = along_height(arguments.padding, dim, 0);
  shape.padding_width = along_width(arguments.padding);
  shape.dilation_height = along_height(arguments.dilation, dim, 1);
  shape.dilation_width = along_width(arguments.dilation);
  shape.groups = arguments.groups;
  TORCH_CHECK(shape.output_height() > 0 && shape.output_width() > 0, name, ": an input of ", input.sizes(),
              " is too small for filters of ", weight.sizes());
  return shape;
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef, int64_t groups) {
  const Tensor x = floats("convolution", input), w = floats("convolution", weight), b = floats("convolution", bias);
  const Convolution shape = shape_of("convolution", x, w, {stride, padding, dilation, transposed, groups});
  Tensor y = x.dim() == 3
                 ? new_floats({shape.batch, shape.channels_out, shape.output_width()}, x)
                 : new_floats({shape.batch, shape.channels_out, shape.output_height(), shape.output_width()}, x);
  kernels::portable::convolution_forward(shape, x.const_data_ptr<float>(), w.const_data_ptr<float>(), data_or_null(b),
                                         y.mutable_data_ptr<float>(), execution_on(x));
  return y;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& input,
                                                        const Tensor& weight, OptionalIntArrayRef, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                                        IntArrayRef, int64_t groups, std::array<bool, 3> wanted) {
  constexpr const char* name = "convolution_backward";
  const Tensor dy = floats(name, gradient), x = floats(name, input), w = floats(name, weight);
  const Convolution shape = shape_of(name, x, w, {stride, padding, dilation, transposed, groups});
  Tensor dx, dw, db;
  if (wanted[0]) {
    dx = new_like(x);
    kernels::portable::convolution_backward_data(shape, dy.const_data_ptr<float>(), w.const_data_ptr<float>(),
                                                 dx.mutable_data_ptr<float>(), execution_on(x));
  }
  if (wanted[1]) {
    dw = new_like(w);
    kernels::portable::convolution_backward_filter(shape, x.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                                                   dw.mutable_data_ptr<float>(), execution_on(x));
  }
  if (wanted[2]) {
    db = new_floats({shape.channels_out}, x);
    kernels::portable::convolution_backward_bias(shape, dy.const_data_ptr<float>(), db.mutable_data_ptr<float>(),
                                                 execution_on(x));
  }
  return {dx, dw, db};
}

}  // namespace

void register_convolution(Registry& registry) {
  registry.replace("convolution", convolution);
  registry.replace("convolution_backward", convolution_backward);
}

}  // namespace estrain::operators
