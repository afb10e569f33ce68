#include "core/engine/cuda/pinned/convolution_library.h"

#include <memory>

#include "core/engine/cuda/portable/portable_convolution.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;

bool has_portable(const pinned::ConvolutionProblem& c) {
  return c.element == pinned::Element::f32 && c.math == pinned::Math::exact;
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

}  // namespace estrain::cuda
