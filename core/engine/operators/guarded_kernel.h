#pragma once
// A portable kernel as called by LibTorch's dispatcher, with the rules of every operator: the operands are on one
// device, and in a scan LibTorch's own kernel computes the cases that the portable kernel refuses.

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <type_traits>

#include "core/engine/operators/refusal.h"

namespace estrain::operators {

struct Operands {
  bool numbers_anywhere = false;  // a tensor without dimensions may be in the CPU's memory, as in LibTorch
  bool leaves_integers = false;   // to LibTorch's own kernel, where all are integers
};

// Facts about the operands of a call.
class OperandCheck {
 public:
  explicit OperandCheck(Operands rules) : rules_(rules) {}

  void see(const at::Tensor& tensor);
  void see(const std::optional<at::Tensor>& tensor) {
    if (tensor) see(*tensor);
  }
  void see(at::TensorList tensors) {
    for (const at::Tensor& each : tensors) see(each);
  }
  void see(const at::Scalar& number) { all_whole_ = all_whole_ && number.isIntegral(/*includeBool=*/true); }
  // Ignores the indices of index_put_, which LibTorch takes from all devices, and operands other than tensors.
  template <typename Other>
  void see(const Other&) {}

  // Throws as LibTorch if two devices were seen.
  void require_one_device(const std::string& name) const;
  bool is_left() const { return rules_.leaves_integers && all_whole_; }

 private:
  Operands rules_;
  std::optional<at::Device> device_, other_;
  bool all_whole_ = true;
};

// LibTorch's own kernel of an operator, from before the replacement. A call throws if LibTorch has no kernel.
class OwnKernel {
 public:
  OwnKernel(const std::string& name, c10::DispatchKey key);

  template <typename Return, typename... Arguments>
  Return call(Arguments... arguments) const {
    return kernel_.call<Return, Arguments...>(op_, c10::DispatchKeySet(key_), std::forward<Arguments>(arguments)...);
  }

 private:
  c10::OperatorHandle op_;
  c10::DispatchKey key_;
  c10::KernelFunction kernel_;
};

// During a call of LibTorch's own kernel, lets LibTorch use all libraries that LibTorch uses without portable kernels.
class OwnLibraries {
 public:
  OwnLibraries();
  ~OwnLibraries();
  OwnLibraries(const OwnLibraries&) = delete;
  OwnLibraries& operator=(const OwnLibraries&) = delete;

 private:
  bool mkldnn_;
};

template <typename Return, typename... Arguments>
class GuardedKernel {
 public:
  using Kernel = Return (*)(Arguments...);

  GuardedKernel(const std::string& name, c10::DispatchKey key, Kernel kernel, Operands rules)
      : name_(name), own_(name, key), kernel_(kernel), rules_(rules) {}

  Return operator()(Arguments... arguments) const {
    OperandCheck check(rules_);
    (check.see(arguments), ...);
    check.require_one_device(name_);
    if (check.is_left()) return own_.template call<Return, Arguments...>(arguments...);
    try {
      return kernel_(arguments...);
    } catch (const Refusal&) {
      if (!is_scanning()) throw;
    }
    const OwnLibraries libraries;
    return own_.template call<Return, Arguments...>(arguments...);
  }

 private:
  std::string name_;
  OwnKernel own_;
  Kernel kernel_;
  Operands rules_;
};

}  // namespace estrain::operators
