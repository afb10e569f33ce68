#include "core/engine/operators/registry.h"

#include <ATen/Context.h>

#include <memory>
#include <utility>

namespace estrain::operators {
namespace {

// A Kept kernel stays valid when another kernel is registered over it.
struct Kept : c10::OperatorKernel {
  explicit Kept(c10::SafeKernelFunction own) : kernel(std::move(own)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    kernel.callBoxed(op, keys, stack);
  }
  c10::SafeKernelFunction kernel;
};

}  // namespace

c10::OperatorHandle operator_of(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + name.substr(0, dot)).c_str(), overload.c_str());
}

void OperandCheck::see(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  all_whole_ = all_whole_ && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
  if (rules_.numbers_anywhere && tensor.dim() == 0 && tensor.is_cpu()) return;
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
  if (!device_) {
    device_ = tensor.device();
  } else if (*device_ != tensor.device()) {
    other_ = tensor.device();
  }
}

void OperandCheck::require_one_device(const std::string& name) const {
  TORCH_CHECK(!other_, "Expected all tensors to be on the same device, but found at least two devices, ", *device_,
              " and ", *other_, "! (in the portable kernel of aten::", name, ")");
}

OwnKernel::OwnKernel(const std::string& name, c10::DispatchKey key) : op_(operator_of(name)), key_(key) {
  if (op_.hasComputedKernelForDispatchKey(key)) {
    auto own = std::make_unique<Kept>(op_.getComputedKernelForDispatchKey(key));
    kernel_ = c10::KernelFunction::makeFromBoxedFunctor(std::move(own));
  }
}

OwnLibraries::OwnLibraries() : mkldnn_(at::globalContext().userEnabledMkldnn()) {
  at::globalContext().setUserEnabledMkldnn(true);
}
OwnLibraries::~OwnLibraries() { at::globalContext().setUserEnabledMkldnn(mkldnn_); }

WithoutCudnn::WithoutCudnn() : cudnn_(at::globalContext().userEnabledCuDNN()) {
  at::globalContext().setUserEnabledCuDNN(false);
}
WithoutCudnn::~WithoutCudnn() { at::globalContext().setUserEnabledCuDNN(cudnn_); }

}  // namespace estrain::operators
