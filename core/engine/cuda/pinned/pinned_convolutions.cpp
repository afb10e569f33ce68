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
  return c.element == pinned::Element::f32 && c.math == pinned::Math::exact;
}

pinned::ConvolutionExtent pinned_axis(const ConvolutionArguments::SpatialAxis& axis) {
  return {axis.size, axis.filter, axis.stride, axis.padding, axis.dilation};
}

ConvolutionProblem shape_of(pinned::Pass pass, const Tensor& input, const Tensor& weight,
                            const ConvolutionArguments& arguments) {
  ConvolutionProblem shape;
  shape.pass = pass;
  shape.element = input.scalar_type() == at::kFloat ? pinned::Element::f32 : pinned::Element::bf16;
  const bool tf32 = shape.element == pinned::Element::f32 && at::globalContext().allowTF32CuDNN();
  shape.math = tf32 ? pinned::Math::tf32 : pinned::Math::exact;
  shape.batch = input.size(0);
  shape.channels_in = input.size(1);
  shape.channels_out = weight.size(0);
  shape.groups = arguments.groups;
  shape.height = pinned_axis(arguments.height(input, weight));
  shape.width = pinned_axis(arguments.width(input, weight));
  return shape;
}

std::vector<int64_t> output_sizes(const ConvolutionProblem& shape, int64_t dim) {
  if (dim == 3) return {shape.batch, shape.channels_out, shape.width.output()};
  return {shape.batch, shape.channels_out, shape.height.output(), shape.width.output()};
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
  if (!has_portable(convolution)) return {nullptr, "the portable kernel computes in float32"};
  return {std::make_unique<PortableConvolution>(convolution), ""};
}

bool PinnedConvolutions::is_pinned(const Tensor& input, const Tensor& weight, const Tensor& gradient,
                                   const ConvolutionArguments& arguments) {
  const int64_t dim = input.dim();
  if (arguments.transposed || (dim != 3 && dim != 4) || weight.dim() != dim) return false;
  if (input.scalar_type() != at::kFloat && input.scalar_type() != at::kBFloat16) return false;
  if (!is_plain(input, input) || !is_plain(weight, input)) return false;
  const int64_t groups = arguments.groups;
  if (groups < 1 || input.size(1) != weight.size(1) * groups || weight.size(0) % groups != 0) return false;
  const ConvolutionProblem shape = shape_of(pinned::Pass::forward, input, weight, arguments);
  for (const pinned::ConvolutionExtent& axis : {shape.height, shape.width}) {
    if (axis.stride < 1 || axis.dilation < 1 || axis.padding < 0) return false;
  }
  if (!shape.filter_fits()) return false;
  if (!gradient.defined()) return true;
  return is_plain(gradient, input) && gradient.sizes() == IntArrayRef(output_sizes(shape, dim));
}

// The result replaces one of the three members.
struct PinnedConvolutions::Operands {
  Tensor x, w, y;
  Tensor& result(pinned::Pass pass) { return pass == pinned::Pass::forward ? y : pass == pinned::Pass::data ? x : w; }
};

Tensor PinnedConvolutions::compute(const ConvolutionProblem& shape, const Operands& given) {
  Operands operands = given;
  const auto run = [&](pinned::ConvolutionPlan& plan, const Tensor& to, void* workspace) {
    operands.result(shape.pass) = to;
    plan.run({operands.x.data_ptr(), operands.w.data_ptr(), operands.y.data_ptr()}, workspace,
             c10::cuda::getCurrentCUDAStream().stream());
  };
  const Tensor out = operands.result(shape.pass);
  pinned::ConvolutionPlan* plan = plans_.plan_for(shape, out, run);
  if (plan == nullptr) return {};
  plans_.run_with_workspace(*plan, [&](void* workspace) { run(*plan, out, workspace); });
  return out;
}

Tensor PinnedConvolutions::forward(const Tensor& input, const Tensor& weight, const ConvolutionArguments& arguments) {
  const ConvolutionProblem shape = shape_of(pinned::Pass::forward, input, weight, arguments);
  return compute(shape,
                 {aligned(input), aligned(weight), at::empty(output_sizes(shape, input.dim()), input.options())});
}

Tensor PinnedConvolutions::input_gradient(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                          const ConvolutionArguments& arguments) {
  const ConvolutionProblem shape = shape_of(pinned::Pass::data, input, weight, arguments);
  return compute(shape, {at::empty(input.sizes(), input.options()), aligned(weight), aligned(gradient)});
}

Tensor PinnedConvolutions::weight_gradient(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                           const ConvolutionArguments& arguments) {
  const ConvolutionProblem shape = shape_of(pinned::Pass::filter, input, weight, arguments);
  return compute(shape, {aligned(input), at::empty(weight.sizes(), weight.options()), aligned(gradient)});
}

}  // namespace estrain::cuda
