#pragma once
// Replaces LibTorch's kernels for the CPU and another device, below autograd, and records the kernels' names.

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "core/engine/operators/refusal.h"

namespace estrain::operators {

// A portable kernel as called by LibTorch's dispatcher, with the rules of every operator: the operands are on one
// device, and in a scan LibTorch's own kernel computes the cases that the portable kernel refuses.
struct Operands {
  bool numbers_anywhere = false;  // a tensor without dimensions may be in the CPU's memory, as in LibTorch
  bool leaves_integers = false;   // to LibTorch's own kernel, where all are integers
  bool leaves_refused = false;    // to LibTorch's own kernel, what the portable kernel refuses
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

// `name`: without "aten::", with the overload. Throws if LibTorch has no such operator.
c10::OperatorHandle operator_of(const std::string& name);

// LibTorch's own kernel of an operator, from before the replacement. A call throws if LibTorch has no kernel.
class OwnKernel {
 public:
  OwnKernel(const std::string& name, c10::DispatchKey key);

  void call_boxed(torch::jit::Stack* stack) const { kernel_.callBoxed(op_, c10::DispatchKeySet(key_), stack); }
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

// During the object's lifetime LibTorch composes recurrent layers of products. cuDNN keeps the state of the dropout
// between layers in the process: it would not move with an EST. cuDNN also chooses among algorithms that sum in
// different orders.
class WithoutCudnn {
 public:
  WithoutCudnn();
  ~WithoutCudnn();
  WithoutCudnn(const WithoutCudnn&) = delete;
  WithoutCudnn& operator=(const WithoutCudnn&) = delete;

 private:
  bool cudnn_;
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
      if (!is_scanning() && !rules_.leaves_refused) throw;
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

class OperatorRegistry {
 public:
  // A DispatchPlace registers kernels for one kind of device.
  struct DispatchPlace {
    c10::DispatchKey key, autograd_key;
    torch::Library kernels, autograd;
    explicit DispatchPlace(c10::DispatchKey of)
        : key(of),
          autograd_key(c10::getAutogradKeyFromBackend(c10::toBackendComponent(of))),
          kernels(torch::Library::IMPL, "aten", key, __FILE__, __LINE__),
          autograd(torch::Library::IMPL, "aten", autograd_key, __FILE__, __LINE__) {}
  };

  // `cpu` or `device` may be null.
  OperatorRegistry(DispatchPlace* cpu, DispatchPlace* device, std::set<std::string>& names)
      : cpu_(cpu), device_(device), names_(names) {}

  // From now on LibTorch's own kernels compute what the portable kernels refuse.
  void leave_refused() { leaves_refused_ = true; }

  // `name`: without "aten::", with the overload ("mul.Tensor"). All operands are on one device: the kernel may take the
  // operands' addresses.
  template <typename Return, typename... Arguments>
  void replace(const std::string& name, Return (*function)(Arguments...)) {
    put(name, function, {});
  }
  // For a kernel that brings numbers in the CPU's memory to the device, or leaves such numbers to other operators.
  template <typename Return, typename... Arguments>
  void replace_elementwise(const std::string& name, Return (*function)(Arguments...)) {
    put(name, function, {.numbers_anywhere = true});
  }
  // Leaves calls with only integer operands to LibTorch's own kernel, which is exact for integers.
  template <typename Return, typename... Arguments>
  void replace_for_floats(const std::string& name, Return (*function)(Arguments...)) {
    put(name, function, {.leaves_integers = true});
  }
  template <typename Return, typename... Arguments>
  void replace_elementwise_for_floats(const std::string& name, Return (*function)(Arguments...)) {
    put(name, function, {.numbers_anywhere = true, .leaves_integers = true});
  }
  // For an operator with an exact kernel on the CPU and an inexact kernel on the device.
  template <typename Return, typename... Arguments>
  void replace_on_device(const std::string& name, Return (*function)(Arguments...)) {
    if (device_ != nullptr) put(device_->kernels, device_->key, name, function, {.numbers_anywhere = true});
  }
  // For a kernel that is faster on the CPU, of an operator that is exact for all types: it counts as LibTorch's.
  template <typename Function>
  void hasten(const std::string& name, Function* function) {
    if (cpu_ != nullptr) cpu_->kernels.impl(name.c_str(), torch::CppFunction(function));
  }
  // For an operator that LibTorch composes of several operators: the operator gets its own derivative.
  template <typename Return, typename... Arguments>
  void replace_above_autograd(const std::string& name, Return (*function)(Arguments...)) {
    if (cpu_ != nullptr) put(cpu_->autograd, cpu_->autograd_key, name, function, {});
    if (device_ != nullptr) put(device_->autograd, device_->autograd_key, name, function, {});
    names_.insert("aten::" + name);
  }

 private:
  template <typename Return, typename... Arguments>
  void put(const std::string& name, Return (*function)(Arguments...), Operands operands) {
    if (cpu_ != nullptr) put(cpu_->kernels, cpu_->key, name, function, operands);
    if (device_ != nullptr) put(device_->kernels, device_->key, name, function, operands);
    names_.insert("aten::" + name);
  }
  template <typename Return, typename... Arguments>
  void put(torch::Library& library, c10::DispatchKey key, const std::string& name, Return (*function)(Arguments...),
           Operands operands) {
    operands.leaves_refused = leaves_refused_;
    library.impl(name.c_str(), torch::CppFunction(GuardedKernel<Return, Arguments...>(name, key, function, operands)));
  }

  DispatchPlace *cpu_, *device_;
  std::set<std::string>& names_;
  bool leaves_refused_ = false;
};

// The files of operators: each defines register_<file>(registry).
// clang-format off
#define ESTRAIN_OPERATOR_FILES(each) \
  each(along_dimension)       \
  each(attention)             \
  each(convolution)           \
  each(copies)                \
  each(ctc_loss)              \
  each(distances)             \
  each(elementwise)           \
  each(embedding)             \
  each(functions)             \
  each(indexing)              \
  each(linear)                \
  each(loss)                  \
  each(matmul)                \
  each(normalization)         \
  each(pooling)               \
  each(random)                \
  each(recurrent)             \
  each(reductions)            \
  each(resizing)              \
  each(whole_numbers)
// clang-format on
#define ESTRAIN_DECLARED(file) void register_##file(OperatorRegistry& registry);
ESTRAIN_OPERATOR_FILES(ESTRAIN_DECLARED)
#undef ESTRAIN_DECLARED

}  // namespace estrain::operators
