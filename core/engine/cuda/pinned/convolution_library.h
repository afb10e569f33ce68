#pragma once
// The algorithms from which a convolution on the GPU is pinned: cuDNN's (kernels/pinned/convolution.h), and in float32
// without TF32 the portable kernel of the same pass (kernels/portable/convolution.h), named "portable". The portable
// kernel has the same bits on every device. On an H200 a step of ResNet-50 by portable kernels alone takes 0.86 of the
// time of a step by cuDNN's deterministic algorithms alone.

#include <functional>
#include <string>
#include <vector>

#include "kernels/pinned/convolution.h"

namespace estrain::cuda {

// A ConvolutionLibrary is for the current device. The members are the members of kernels::pinned::Convolutions.
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

}  // namespace estrain::cuda
