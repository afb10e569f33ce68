// One- and two-dimensional convolutions (kernels/portable/convolution.h).

#include "kernels/portable/convolution.h"

#include <array>
#include <tuple>

#include "core/device/convolution_arguments.h"
#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Tensor;
using device::ConvolutionArguments;
using kernels::portable::Convolution;

Convolution shape_of(const char* name, const Tensor& input, const Tensor& weight,
                     const ConvolutionArguments& arguments) {
  const int64_t dim = input.dim();
  if (dim != 3 && dim != 4) refuse_case(name, "volumes");
  if (arguments.transposed) refuse_case(name, "transposed = true");
  TORCH_CHECK(weight.dim() == dim && input.size(1) == weight.size(1) * arguments.groups &&
                  weight.size(0) % arguments.groups == 0,
              name, ": filters of ", weight.sizes(), " do not fit an input of ", input.sizes());
  Convolution shape;
  arguments.describe(input, weight, shape);
  TORCH_CHECK(shape.output_height() > 0 && shape.output_width() > 0, name, ": an input of ", input.sizes(),
              " is too small for filters of ", weight.sizes());
  return shape;
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef, int64_t groups) {
  const Tensor x = floats("convolution", input), w = floats("convolution", weight), b = floats("convolution", bias);
  const Convolution shape = shape_of("convolution", x, w, {stride, padding, dilation, groups, transposed});
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
  const Convolution shape = shape_of(name, x, w, {stride, padding, dilation, groups, transposed});
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
