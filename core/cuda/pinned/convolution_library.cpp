#include "core/cuda/pinned/convolution_library.h"

#include <c10/cuda/CUDAFunctions.h>

#include <memory>
#include <stdexcept>

#include "core/cuda/kernel_queue.h"
#include "kernels/pinned/failure.h"
#include "kernels/portable/convolution.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;
namespace portable = kernels::portable;

portable::Convolution portable_shape(const pinned::Convolution& c) {
  return {.batch = c.batch,
          .channels_in = c.channels_in,
          .height = c.height.size,
          .width = c.width.size,
          .channels_out = c.channels_out,
          .filter_height = c.height.filter,
          .filter_width = c.width.filter,
          .stride_height = c.height.stride,
          .stride_width = c.width.stride,
          .padding_height = c.height.padding,
          .padding_width = c.width.padding,
          .dilation_height = c.height.dilation,
          .dilation_width = c.width.dilation,
          .groups = c.groups};
}

// Takes its scratch memory from LibTorch's allocator, so it needs no workspace.
class PortablePlan : public pinned::ConvolutionPlan {
 public:
  explicit PortablePlan(const pinned::Convolution& convolution)
      : pass_(convolution.pass), shape_(portable_shape(convolution)), queue_(c10::cuda::current_device()) {}

  size_t workspace() const override { return 0; }

  // `stream` is LibTorch's current one.
  void run(const pinned::ConvolutionOperands& operands, void*, void*) override {
    try {
      compute(operands, {.device = queue_.current()});
    } catch (const std::invalid_argument& too_large) {
      throw pinned::Failure(too_large.what());
    }
  }

 private:
  void compute(const pinned::ConvolutionOperands& operands, const kernels::Execution& execution) const {
    auto *x = static_cast<float*>(operands.x), *w = static_cast<float*>(operands.w),
         *y = static_cast<float*>(operands.y);
    switch (pass_) {
      case pinned::Pass::forward:
        return portable::convolution_forward(shape_, x, w, nullptr, y, execution);
      case pinned::Pass::data:
        return portable::convolution_backward_data(shape_, y, w, x, execution);
      case pinned::Pass::filter:
        return portable::convolution_backward_filter(shape_, x, y, w, execution);
    }
  }

  const pinned::Pass pass_;
  const portable::Convolution shape_;
  KernelQueue queue_;
};

bool has_portable(const pinned::Convolution& c) {
  return c.element == pinned::Element::f32 && c.math == pinned::Math::exact;
}

}  // namespace

std::vector<std::string> ConvolutionLibrary::candidates(const pinned::Convolution& convolution,
                                                        const std::function<void()>& between,
                                                        const std::function<void(const std::string&)>& left_out) const {
  std::vector<std::string> candidates = cudnn_.candidates(convolution, between, left_out);
  if (has_portable(convolution)) candidates.emplace_back(kPortable);  // last in the order of names, too
  return candidates;
}

pinned::Convolutions::Built ConvolutionLibrary::build(const pinned::Convolution& convolution,
                                                      const std::string& algorithm) const {
  if (algorithm != kPortable) return cudnn_.build(convolution, algorithm);
  if (!has_portable(convolution)) return {nullptr, "the portable kernel computes in float32"};
  return {std::make_unique<PortablePlan>(convolution), ""};
}

}  // namespace estrain::cuda
