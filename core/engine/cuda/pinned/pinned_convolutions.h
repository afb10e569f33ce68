#pragma once
// Convolutions of tensors on the GPU, transposed convolutions, and the gradients, by pinned algorithms. A transposed
// convolution is the data pass of the convolution that leads from the output to the input.

#include <ATen/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "core/engine/cuda/pinned/pinned_plans.h"
#include "core/engine/device/convolution_arguments.h"
#include "kernels/pinned/convolution.h"

namespace estrain::cuda {

// A ConvolutionLibrary holds the algorithms from which a convolution on the current device is pinned: cuDNN's
// (kernels/pinned/convolution.h), and for images, not volumes, in float32 without TF32 the portable kernel of the same
// pass (kernels/portable/convolution.h), named "portable". The portable kernel has the same bits on every device. On an
// H200 a step of ResNet-50 by portable kernels alone takes 0.86 of the time of a step by cuDNN's deterministic
// algorithms alone. The members are the members of kernels::pinned::Convolutions.
class ConvolutionLibrary {
 public:
  static constexpr const char* kPortable = "portable";

  std::vector<std::string> candidates(
      const kernels::pinned::ConvolutionProblem& convolution, const std::function<void()>& between = [] {},
      const std::function<void(const std::string&)>& left_out = [](const std::string&) {}) const;
  kernels::pinned::BuiltConvolution build(const kernels::pinned::ConvolutionProblem& convolution,
                                          const std::string& algorithm) const;

 private:
  kernels::pinned::Convolutions cudnn_;
};

// Not thread-safe.
class PinnedConvolutions {
 public:
  explicit PinnedConvolutions(algorithms::PinnedAlgorithms& algorithms) : plans_(algorithms) {}

  // Returns whether a convolution has pinned algorithms: one to three dimensions, all float32 or all bfloat16, no size
  // 0, matching operands, and output_padding below the stride. `gradient`: the output's gradient; undefined in the
  // forward pass.
  static bool is_pinned(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& gradient,
                        const device::ConvolutionArguments& arguments);

  // Return contiguous tensors; undefined tensors if the run has chosen no algorithm: then LibTorch's kernel must
  // compute the result. For convolutions that is_pinned() accepts. The first call for a shape may choose, which waits
  // for the GPU. Throw as PinnedPlans::plan_for(), and kernels::pinned::Failure.
  at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, const device::ConvolutionArguments& arguments);
  at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                            const device::ConvolutionArguments& arguments);
  at::Tensor weight_gradient(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
                             const device::ConvolutionArguments& arguments);

 private:
  struct Operands;
  at::Tensor compute(const kernels::pinned::ConvolutionProblem& shape, const Operands& operands);

  PinnedPlans<ConvolutionLibrary, kernels::pinned::ConvolutionProblem, kernels::pinned::ConvolutionPlan> plans_;
};

}  // namespace estrain::cuda
