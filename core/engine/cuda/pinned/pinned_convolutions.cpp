#include "core/engine/cuda/pinned/pinned_convolutions.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <memory>

#include "core/engine/cuda/portable/portable_convolution.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;
using at::IntArrayRef;
using at::Tensor;
using device::ConvolutionArguments;
using pinned::ConvolutionProblem;

bool has_portable(const pinned::ConvolutionProblem& c) {
  return c.element == pinned::Element::f32 && c.math == pinned::Math::exact && !c.is_volume();
}

int64_t of_axis(IntArrayRef numbers, int64_t from_last) {
  if (numbers.size() < 2) return numbers.empty() ? 0 : numbers[0];  // one number for all axes
  return numbers[numbers.size() - 1 - static_cast<size_t>(from_last)];
}

pinned::ConvolutionExtent extent_of(const Tensor& input, const Tensor& weight, const ConvolutionArguments& arguments,
                                    int64_t from_last) {
  const int64_t axis = input.dim() - 1 - from_last;
  if (axis < 2) return {};
  pinned::ConvolutionExtent extent{input.size(axis), weight.size(axis), of_axis(arguments.stride, from_last),
                                   of_axis(arguments.padding, from_last), of_axis(arguments.dilation, from_last)};
  if (arguments.transposed) {
    extent.size = (extent.size - 1) * extent.stride - 2 * extent.padding + extent.dilation * (extent.filter - 1) + 1 +
                  of_axis(arguments.output_padding, from_last);
  }
  return extent;
}

ConvolutionProblem shape_of(pinned::Pass pass, const Tensor& input, const Tensor& weight,
                            const ConvolutionArguments& arguments) {
  ConvolutionProblem shape;
  shape.pass = pass;
  shape.element = input.scalar_type() == at::kFloat ? pinned::Element::f32 : pinned::Element::bf16;
  const bool tf32 = shape.element == pinned::Element::f32 && at::globalContext().allowTF32CuDNN();
  shape.math = tf32 ? pinned::Math::tf32 : pinned::Math::exact;
  shape.batch = input.size(0);
  shape.channels_in = weight.size(1) * arguments.groups;
  shape.channels_out = weight.size(0);
  shape.groups = arguments.groups;
  shape.width = extent_of(input, weight, arguments, 0);
  shape.height = extent_of(input, weight, arguments, 1);
  shape.depth = extent_of(input, weight, arguments, 2);
  return shape;
}

// Of the side with the smaller or the larger image: [n, c, …] with `dim` dimensions.
std::vector<int64_t> sizes_of(const ConvolutionProblem& shape, bool is_input, int64_t dim) {
  std::vector<int64_t> sizes = {shape.batch, is_input ? shape.channels_in : shape.channels_out};
  const std::vector<pinned::ConvolutionExtent> all = {shape.depth, shape.height, shape.width};
  for (auto axis = all.end() - (dim - 2); axis != all.end(); ++axis)
    sizes.push_back(is_input ? axis->size : axis->output());
  return sizes;
}

std::vector<int64_t> output_sizes(const ConvolutionProblem& shape, const ConvolutionArguments& arguments, int64_t dim) {
  return sizes_of(shape, /*is_input=*/arguments.transposed, dim);
}

bool fits(const pinned::ConvolutionExtent& axis) {
  return axis.stride >= 1 && axis.dilation >= 1 && axis.padding >= 0 && axis.size >= 1 && axis.filter_fits();
}

// Returns an operand in the form needed by the library.
Tensor aligned(const Tensor& x) {
  const Tensor contiguous = x.contiguous();
  const auto at = reinterpret_cast<uintptr_t>(contiguous.const_data_ptr());
  return at % pinned::kConvolutionAlignment == 0 ? contiguous : contiguous.clone();
}

}  // namespace

std::vector<std::string> ConvolutionLibrary::candidates(const pinned::ConvolutionProblem& convolution,
                                                        const std::function<void()>& between,
                                                        const std::function<void(const std::string&)>& left_out) const {
  std::vector<std::string> candidates = cudnn_.candidates(convolution, between, left_out);
  if (has_portable(convolution)) candidates.emplace_back(kPortable);  // the last name in sorted order, too
  return candidates;
}

pinned::BuiltConvolution ConvolutionLibrary::build(const pinned::ConvolutionProblem& convolution,
                                                   const std::string& algorithm) const {
  if (algorithm != kPortable) return cudnn_.build(convolution, algorithm);
  if (!has_portable(convolution)) return {nullptr, "the portable kernel computes images in float32"};
  return {std::make_unique<PortableConvolution>(convolution), ""};
}

bool PinnedConvolutions::is_pinned(const Tensor& input, const Tensor& weight, const Tensor& gradient,
                                   const ConvolutionArguments& arguments) {
  const int64_t dim = input.dim();
  if (dim < 3 || dim > 5 || weight.dim() != dim) return false;
  if (input.scalar_type() != at::kFloat && input.scalar_type() != at::kBFloat16) return false;
  if (!is_plain(input, input) || !is_plain(weight, input)) return false;
  if (arguments.groups < 1 || weight.size(0) % arguments.groups != 0) return false;
  const ConvolutionProblem shape = shape_of(pinned::Pass::forward, input, weight, arguments);
  if (!fits(shape.depth) || !fits(shape.height) || !fits(shape.width)) return false;
  // A transposed convolution with much output_padding is not the gradient of a convolution.
  if (input.sizes() != IntArrayRef(sizes_of(shape, /*is_input=*/!arguments.transposed, dim))) return false;
  if (!gradient.defined()) return true;
  return is_plain(gradient, input) && gradient.sizes() == IntArrayRef(output_sizes(shape, arguments, dim));
}

// The result replaces one of the three members.
struct PinnedConvolutions::Operands {
  Tensor x, w, y;

  static Operands of(const ConvolutionArguments& arguments, const Tensor& input, const Tensor& weight,
                     const Tensor& output) {
    return arguments.transposed ? Operands{output, weight, input} : Operands{input, weight, output};
  }
  Tensor& result(pinned::Pass pass) { return pass == pinned::Pass::forward ? y : pass == pinned::Pass::data ? x : w; }
};

Tensor PinnedConvolutions::compute(const ConvolutionProblem& shape, const Operands& given) {
  Operands operands = given;
  const auto run = [&](pinned::ConvolutionPlan& plan, const Tensor& to, void* workspace) {
    operands.result(shape.pass) = to;
    plan.run({operands.x.data_ptr(), operands.w.data_ptr(), operands.y.data_ptr()}, workspace,
             c10::cuda::getCurrentCUDAStream().stream());
  };
  Tensor out = operands.result(shape.pass);
  pinned::ConvolutionPlan* plan = plans_.plan_for(shape, out, run);
  if (plan == nullptr) return {};
  plans_.run_with_workspace(*plan, [&](void* workspace) { run(*plan, out, workspace); });
  return out;
}

Tensor PinnedConvolutions::forward(const Tensor& input, const Tensor& weight, const ConvolutionArguments& arguments) {
  const pinned::Pass pass = arguments.transposed ? pinned::Pass::data : pinned::Pass::forward;
  const ConvolutionProblem shape = shape_of(pass, input, weight, arguments);
  const Tensor output = at::empty(output_sizes(shape, arguments, input.dim()), input.options());
  return compute(shape, Operands::of(arguments, aligned(input), aligned(weight), output));
}

Tensor PinnedConvolutions::input_gradient(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                          const ConvolutionArguments& arguments) {
  const pinned::Pass pass = arguments.transposed ? pinned::Pass::forward : pinned::Pass::data;
  const ConvolutionProblem shape = shape_of(pass, input, weight, arguments);
  const Tensor result = at::empty(input.sizes(), input.options());
  return compute(shape, Operands::of(arguments, result, aligned(weight), aligned(gradient)));
}

Tensor PinnedConvolutions::weight_gradient(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                           const ConvolutionArguments& arguments) {
  const ConvolutionProblem shape = shape_of(pinned::Pass::filter, input, weight, arguments);
  const Tensor result = at::empty(weight.sizes(), weight.options());
  return compute(shape, Operands::of(arguments, aligned(input), result, aligned(gradient)));
}

}  // namespace estrain::cuda
