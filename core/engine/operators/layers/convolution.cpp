// Convolutions of one and two dimensions (kernels/portable/convolution.h), and of three dimensions. A convolution of
// three dimensions adds up convolutions of images: one for each slice of the filters along the depth, in the order of
// the slices. A transposed convolution is the backward pass, for the data, of the convolution from its output to its
// input, plus the bias: y = data(x, w) + b, dx = forward(dy, w), dw = filter(dy, x), db the sum of dy.

#include "kernels/portable/convolution.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <tuple>
#include <vector>

#include "core/engine/device/convolution_arguments.h"
#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"

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
  if (dim != 3 && dim != 4) refuse_case(name, "inputs of six dimensions and more");
  TORCH_CHECK(weight.dim() == dim && input.size(1) == weight.size(1) * arguments.groups &&
                  weight.size(0) % arguments.groups == 0,
              name, ": filters of ", weight.sizes(), " do not fit an input of ", input.sizes());
  Convolution shape;
  arguments.describe(input, weight, shape);
  TORCH_CHECK(shape.output_height() > 0 && shape.output_width() > 0, name, ": an input of ", input.sizes(),
              " is too small for filters of ", weight.sizes());
  return shape;
}

// LibTorch's results are channels last where the images or the filters are.
at::MemoryFormat format_of(const Tensor& x, const Tensor& w) {
  const at::MemoryFormat format = x.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? w.suggest_memory_format() : format;
}

std::vector<int64_t> image_sizes(const Tensor& like, int64_t channels, int64_t height, int64_t width) {
  if (like.dim() == 3) return {like.size(0), channels, width};
  return {like.size(0), channels, height, width};
}

constexpr const char* kWidelyPadded = "output_padding of a stride or more";

// The convolution from a transposed convolution's output, [n, channels_out, ...], to the transposed one's input.
struct Transposed {
  std::vector<int64_t> sizes;  // of the output
  Convolution shape;

  Transposed(const char* name, const Tensor& x, const Tensor& w, const ConvolutionArguments& arguments,
             IntArrayRef output_padding) {
    if (x.dim() != 3 && x.dim() != 4) refuse_case(name, "inputs of six dimensions and more");
    TORCH_CHECK(w.dim() == x.dim() && x.size(1) == w.size(0) && w.size(0) % arguments.groups == 0, name,
                ": filters of ", w.sizes(), " do not fit a transposed convolution of ", x.sizes());
    sizes = {x.size(0), w.size(1) * arguments.groups};
    for (int64_t d = 2; d < x.dim(); ++d) {
      const auto at = [&](IntArrayRef values) {
        return values.size() == 1 ? values[0] : values[static_cast<size_t>(d - 2)];
      };
      sizes.push_back((x.size(d) - 1) * at(arguments.stride) - 2 * at(arguments.padding) +
                      at(arguments.dilation) * (w.size(d) - 1) + at(output_padding) + 1);
      TORCH_CHECK(sizes.back() > 0, name, ": an input of ", x.sizes(), " is too small for filters of ", w.sizes());
    }
    arguments.describe(x, w, shape);
    shape.channels_in = sizes[1];
    shape.channels_out = x.size(1);
    shape.height = x.dim() == 4 ? sizes[2] : 1;
    shape.width = sizes.back();
  }
};

Tensor transposed_convolution(const Tensor& x, const Tensor& w, const Tensor& b, const ConvolutionArguments& arguments,
                              IntArrayRef output_padding) {
  const Transposed transposed("convolution", x, w, arguments, output_padding);
  Tensor y = new_floats(transposed.sizes, x);
  kernels::portable::convolution_backward_data(transposed.shape, x.const_data_ptr<float>(), w.const_data_ptr<float>(),
                                               y.mutable_data_ptr<float>(), execution_on(x, w));
  if (b.defined()) y.add_(b.view(x.dim() == 3 ? IntArrayRef{1, -1, 1} : IntArrayRef{1, -1, 1, 1}));
  return y;
}

// A convolution of volumes [n, channels, depth, height, width]. The wide side is the input, or the output of a
// transposed convolution; slice k of the filters (along the filters' depth) joins depth d of the narrow side to depth d
// * stride + k * dilation of the padded wide side.
class VolumeConvolution {
 public:
  VolumeConvolution(const char* name, const Tensor& weight, const ConvolutionArguments& arguments,
                    IntArrayRef output_padding)
      : name_(name),
        weight_(weight),
        transposed_(arguments.transposed),
        groups_(arguments.groups),
        stride_(along_depth(arguments.stride)),
        padding_(along_depth(arguments.padding)),
        dilation_(along_depth(arguments.dilation)),
        output_padding_(along_depth(output_padding)),
        image_stride_(of_images(arguments.stride)),
        image_padding_(of_images(arguments.padding)),
        image_dilation_(of_images(arguments.dilation)),
        image_output_padding_(of_images(output_padding)) {}

  Tensor forward(const Tensor& x, const std::optional<Tensor>& bias) const {
    TORCH_CHECK(weight_.dim() == 5, name_, ": filters of ", weight_.sizes(), " do not fit volumes of ", x.sizes());
    const Tensor y = transposed_ ? widened(x) : narrowed(x);
    return bias && bias->defined() ? y.add_(bias->view({1, -1, 1, 1, 1})) : y;
  }

  // Returns the wanted gradients of input and filters.
  std::pair<Tensor, Tensor> backward(const Tensor& dy, const Tensor& x, bool wants_input, bool wants_filters) const {
    const Tensor wide = padded(transposed_ ? dy : x);
    const int64_t depth = (transposed_ ? x : dy).size(2);
    Tensor dx;
    if (wants_input) dx = at::zeros(transposed_ ? x.sizes() : wide.sizes(), x.options());
    std::vector<Tensor> filters;
    for (int64_t slice = 0; slice < weight_.size(2); ++slice) {
      const Tensor met = as_images(met_by(wide, slice, depth));
      const auto [part, filter, bias] = at::convolution_backward(
          transposed_ ? met : as_images(dy), transposed_ ? as_images(x) : met, weight_.select(2, slice), std::nullopt,
          image_stride_, image_padding_, image_dilation_, transposed_, image_output_padding_, groups_,
          {wants_input, wants_filters, false});
      if (wants_input) (transposed_ ? dx : met_by(dx, slice, depth)).add_(as_volumes(part, x.size(0), depth));
      if (wants_filters) filters.push_back(filter);
    }
    if (wants_input && !transposed_) dx = dx.narrow(2, padding_, x.size(2)).contiguous();
    return {dx, wants_filters ? at::stack(filters, 2) : Tensor()};
  }

 private:
  static int64_t along_depth(IntArrayRef values) { return values[0]; }
  static std::array<int64_t, 2> of_images(IntArrayRef values) {
    return {values[values.size() == 1 ? 0 : 1], values[values.size() - 1]};
  }
  static Tensor as_images(const Tensor& volumes) { return volumes.transpose(1, 2).flatten(0, 1); }
  static Tensor as_volumes(const Tensor& images, int64_t n, int64_t depth) {
    return images.unflatten(0, {n, depth}).transpose(1, 2);
  }

  int64_t reach() const { return dilation_ * (weight_.size(2) - 1) + 1; }
  Tensor padded(const Tensor& wide) const { return at::constant_pad_nd(wide, {0, 0, 0, 0, padding_, padding_}); }
  Tensor met_by(const Tensor& wide, int64_t slice, int64_t depth) const {
    const int64_t first = slice * dilation_;
    return wide.slice(2, first, first + (depth - 1) * stride_ + 1, stride_);
  }
  Tensor image_convolution(const Tensor& volumes, int64_t slice) const {
    const Tensor images = at::convolution(as_images(volumes), weight_.select(2, slice), std::nullopt, image_stride_,
                                          image_padding_, image_dilation_, transposed_, image_output_padding_, groups_);
    return as_volumes(images, volumes.size(0), volumes.size(2));
  }

  Tensor narrowed(const Tensor& x) const {
    const Tensor wide = padded(x);
    TORCH_CHECK(wide.size(2) >= reach(), name_, ": an input of ", x.sizes(), " is too small for filters of ",
                weight_.sizes());
    const int64_t depth = (wide.size(2) - reach()) / stride_ + 1;
    Tensor y = in_rows(image_convolution(met_by(wide, 0, depth), 0));
    for (int64_t slice = 1; slice < weight_.size(2); ++slice)
      y.add_(image_convolution(met_by(wide, slice, depth), slice));
    return y;
  }
  Tensor widened(const Tensor& x) const {
    const int64_t depth = (x.size(2) - 1) * stride_ + reach() + output_padding_;
    TORCH_CHECK(depth > 2 * padding_, name_, ": an input of ", x.sizes(), " is too small for filters of ",
                weight_.sizes());
    Tensor wide;
    for (int64_t slice = 0; slice < weight_.size(2); ++slice) {
      const Tensor part = image_convolution(x, slice);
      if (slice == 0) wide = at::zeros({x.size(0), part.size(1), depth, part.size(3), part.size(4)}, x.options());
      met_by(wide, slice, x.size(2)).add_(part);
    }
    return wide.narrow(2, padding_, depth - 2 * padding_).contiguous();
  }

  const char* name_;
  const Tensor weight_;
  const bool transposed_;
  const int64_t groups_, stride_, padding_, dilation_, output_padding_;  // the latter four: along the depth
  const std::array<int64_t, 2> image_stride_, image_padding_, image_dilation_, image_output_padding_;
};

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  const Tensor x = floats("convolution", input), w = floats("convolution", weight), b = floats("convolution", bias);
  const ConvolutionArguments arguments{stride, padding, dilation, groups, transposed, output_padding};
  if (arguments.pads_output_widely()) refuse_case("convolution", kWidelyPadded);
  if (x.dim() == 5) return VolumeConvolution("convolution", w, arguments, output_padding).forward(x, b);
  const at::MemoryFormat format = format_of(input, weight);
  if (transposed) return in_format(transposed_convolution(x, w, b, arguments, output_padding), format);
  const Convolution shape = shape_of("convolution", x, w, arguments);
  Tensor y = new_floats(image_sizes(x, shape.channels_out, shape.output_height(), shape.output_width()), x);
  kernels::portable::convolution_forward(shape, x.const_data_ptr<float>(), w.const_data_ptr<float>(), data_or_null(b),
                                         y.mutable_data_ptr<float>(), execution_on(x, w, b));
  return in_format(y, format);
}

// The form recorded by traces. The flags choose among LibTorch's backends; portable kernels ignore the flags.
Tensor traced_convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                          IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                          IntArrayRef output_padding, int64_t groups, bool, bool, bool, bool) {
  return operators::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

using Gradients = std::tuple<Tensor, Tensor, Tensor>;  // of input, weight, bias

Gradients transposed_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const Convolution& shape,
                              std::array<bool, 3> wanted) {
  Tensor dx, dw, db;
  if (wanted[0]) {
    dx = new_like(x);
    kernels::portable::convolution_forward(shape, dy.const_data_ptr<float>(), w.const_data_ptr<float>(), nullptr,
                                           dx.mutable_data_ptr<float>(), execution_on(x, dy, w));
  }
  if (wanted[1]) {
    dw = new_like(w);
    kernels::portable::convolution_backward_filter(shape, dy.const_data_ptr<float>(), x.const_data_ptr<float>(),
                                                   dw.mutable_data_ptr<float>(), execution_on(x, dy));
  }
  if (wanted[2]) db = at::sum(dy.flatten(2), at::IntArrayRef{0, 2});
  return {dx, dw, db};
}

Gradients gradients_of(const Tensor& gradient, const Tensor& input, const Tensor& weight, OptionalIntArrayRef,
                       IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                       IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  constexpr const char* name = "convolution_backward";
  const Tensor dy = floats(name, gradient), x = floats(name, input), w = floats(name, weight);
  const ConvolutionArguments arguments{stride, padding, dilation, groups, transposed, output_padding};
  if (arguments.pads_output_widely()) refuse_case(name, kWidelyPadded);
  if (x.dim() == 5) {
    const auto [dx, dw] = VolumeConvolution(name, w, arguments, output_padding).backward(dy, x, wanted[0], wanted[1]);
    return {dx, dw, wanted[2] ? at::sum(dy, at::IntArrayRef{0, 2, 3, 4}) : Tensor()};
  }
  if (transposed) return transposed_backward(dy, x, w, Transposed(name, x, w, arguments, output_padding).shape, wanted);
  const Convolution shape = shape_of(name, x, w, arguments);
  Tensor dx, dw, db;
  if (wanted[0]) {
    dx = new_like(x);
    kernels::portable::convolution_backward_data(shape, dy.const_data_ptr<float>(), w.const_data_ptr<float>(),
                                                 dx.mutable_data_ptr<float>(), execution_on(x, dy, w));
  }
  if (wanted[1]) {
    dw = new_like(w);
    kernels::portable::convolution_backward_filter(shape, x.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                                                   dw.mutable_data_ptr<float>(), execution_on(x, dy));
  }
  if (wanted[2]) {
    db = new_floats({shape.channels_out}, x);
    kernels::portable::convolution_backward_bias(shape, dy.const_data_ptr<float>(), db.mutable_data_ptr<float>(),
                                                 execution_on(x, dy));
  }
  return {dx, dw, db};
}

// Returns each gradient in the layout of its tensor.
Gradients convolution_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                               OptionalIntArrayRef bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                               bool transposed, IntArrayRef output_padding, int64_t groups,
                               std::array<bool, 3> wanted) {
  auto [dx, dw, db] = gradients_of(gradient, input, weight, bias, stride, padding, dilation, transposed, output_padding,
                                   groups, wanted);
  const at::MemoryFormat format = format_of(input, weight);
  if (dx.defined()) dx = in_format(dx, format);
  if (dw.defined()) dw = in_format(dw, format);
  return {dx, dw, db};
}

}  // namespace

void register_convolution(OperatorRegistry& registry) {
  registry.replace("convolution", operators::convolution);
  registry.replace("_convolution", traced_convolution);
  registry.replace("convolution_backward", convolution_backward);
}

}  // namespace estrain::operators
