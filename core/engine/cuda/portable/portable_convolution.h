#pragma once
// A convolution, or a gradient of a convolution, by a portable kernel (kernels/portable/convolution.h), as a plan among
// the plans of pinned algorithms.

#include "core/engine/cuda/portable/kernel_queue.h"
#include "kernels/pinned/convolution.h"
#include "kernels/portable/convolution.h"

namespace estrain::cuda {

// Runs on the current GPU. Takes scratch memory from LibTorch's allocator, so the plan needs no workspace.
class PortableConvolution : public kernels::pinned::ConvolutionPlan {
 public:
  // `convolution`: in float32, Math::exact.
  explicit PortableConvolution(const kernels::pinned::ConvolutionProblem& convolution);

  size_t workspace() const override { return 0; }
  // `stream` is LibTorch's current stream. Throws Failure for a convolution of 2^31 positions or elements.
  void run(const kernels::pinned::ConvolutionOperands& operands, void* workspace, void* stream) override;

 private:
  void compute(const kernels::pinned::ConvolutionOperands& operands, const kernels::Execution& execution) const;

  const kernels::pinned::Pass pass_;
  const kernels::portable::Convolution shape_;
  KernelQueue queue_;
};

}  // namespace estrain::cuda
