#pragma once
// Convolutions of tensors on the GPU, and the gradients, by pinned algorithms (convolution_library.h).

#include <ATen/Tensor.h>

#include "core/engine/cuda/pinned/convolution_library.h"
#include "core/engine/cuda/pinned/pinned_plans.h"
#include "core/engine/device/convolution_arguments.h"
#include "kernels/pinned/convolution.h"

namespace estrain::cuda {

class PinnedConvolutions {
 public:
  explicit PinnedConvolutions(algorithms::PinnedAlgorithms& algorithms) : plans_(algorithms) {}

  // Returns whether a convolution has pinned algorithms: not transposed, one or two dimensions, all float32 or all
  // bfloat16, no size 0, and matching operands. `gradient`: the output's gradient; undefined in the forward pass.
  static bool is_pinned(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& gradient,
                        const device::ConvolutionArguments& arguments);

  // Return contiguous tensors; undefined if the library has no algorithm, for all workers: then LibTorch's kernel must
  // compute the result. For convolutions that is_pinned() accepts. Throw Error, c10::Error.
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
