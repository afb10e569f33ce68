#include "core/engine/cuda/portable/portable_convolution.h"

#include <c10/cuda/CUDAFunctions.h>

#include <stdexcept>

#include "kernels/pinned/failure.h"

namespace estrain::cuda {
namespace {

namespace pinned = kernels::pinned;
namespace portable = kernels::portable;

portable::Convolution portable_shape(const pinned::ConvolutionProblem& c) {
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

}  // namespace

PortableConvolution::PortableConvolution(const pinned::ConvolutionProblem& convolution)
    : pass_(convolution.pass), shape_(portable_shape(convolution)), queue_(c10::cuda::current_device()) {}

void PortableConvolution::run(const pinned::ConvolutionOperands& operands, void*, void*) {
  try {
    kernels::Execution execution;
    execution.device = queue_.current();
    compute(operands, execution);
  } catch (const std::invalid_argument& too_large) {
    throw pinned::Failure(too_large.what());
  }
}

void PortableConvolution::compute(const pinned::ConvolutionOperands& operands,
                                  const kernels::Execution& execution) const {
  auto *x = static_cast<float*>(operands.x), *w = static_cast<float*>(operands.w), *y = static_cast<float*>(operands.y);
  switch (pass_) {
    case pinned::Pass::forward:
      return portable::convolution_forward(shape_, x, w, nullptr, y, execution);
    case pinned::Pass::data:
      return portable::convolution_backward_data(shape_, y, w, x, execution);
    case pinned::Pass::filter:
      return portable::convolution_backward_filter(shape_, x, y, w, execution);
  }
}

}  // namespace estrain::cuda
