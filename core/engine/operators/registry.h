#pragma once
// Replaces LibTorch's kernels for the CPU and another device, below autograd, and records the kernels' names.

#include <torch/library.h>

#include <set>
#include <string>
#include <utility>

#include "core/engine/operators/guarded_kernel.h"

namespace estrain::operators {

class Registry {
 public:
  // A Place registers kernels for one kind of device.
  struct Place {
    c10::DispatchKey key, autograd_key;
    torch::Library kernels, autograd;
    explicit Place(c10::DispatchKey of)
        : key(of),
          autograd_key(c10::getAutogradKeyFromBackend(c10::toBackendComponent(of))),
          kernels(torch::Library::IMPL, "aten", key, __FILE__, __LINE__),
          autograd(torch::Library::IMPL, "aten", autograd_key, __FILE__, __LINE__) {}
  };

  // `device` may be null.
  Registry(Place& cpu, Place* device, std::set<std::string>& names) : cpu_(cpu), device_(device), names_(names) {}

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
    cpu_.kernels.impl(name.c_str(), torch::CppFunction(function));
  }
  // For an operator that LibTorch composes of several operators: the operator gets its own derivative.
  template <typename Return, typename... Arguments>
  void replace_above_autograd(const std::string& name, Return (*function)(Arguments...)) {
    put(cpu_.autograd, cpu_.autograd_key, name, function, {});
    if (device_ != nullptr) put(device_->autograd, device_->autograd_key, name, function, {});
    names_.insert("aten::" + name);
  }

 private:
  template <typename Return, typename... Arguments>
  void put(const std::string& name, Return (*function)(Arguments...), Operands operands) {
    put(cpu_.kernels, cpu_.key, name, function, operands);
    if (device_ != nullptr) put(device_->kernels, device_->key, name, function, operands);
    names_.insert("aten::" + name);
  }
  template <typename Return, typename... Arguments>
  void put(torch::Library& library, c10::DispatchKey key, const std::string& name, Return (*function)(Arguments...),
           Operands operands) {
    library.impl(name.c_str(), torch::CppFunction(GuardedKernel<Return, Arguments...>(name, key, function, operands)));
  }

  Place& cpu_;
  Place* device_;
  std::set<std::string>& names_;
};

// The files of operators: each defines register_<file>(registry).
// clang-format off
#define ESTRAIN_OPERATOR_FILES(each) \
  each(attention)             \
  each(batched_matmul)        \
  each(convolution)           \
  each(copies)                \
  each(ctc_loss)              \
  each(cumulative)            \
  each(distances)             \
  each(elementwise)           \
  each(embedding)             \
  each(functions)             \
  each(indexing)              \
  each(linear)                \
  each(loss)                  \
  each(matmul)                \
  each(normalization)         \
  each(padding)               \
  each(pooling)               \
  each(random)                \
  each(recurrent)             \
  each(reductions)            \
  each(softmax)               \
  each(sorting)               \
  each(upsampling)            \
  each(whole_numbers)
// clang-format on
#define ESTRAIN_DECLARED(file) void register_##file(Registry& registry);
ESTRAIN_OPERATOR_FILES(ESTRAIN_DECLARED)
#undef ESTRAIN_DECLARED

}  // namespace estrain::operators
