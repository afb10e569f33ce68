#pragma once
// Replaces LibTorch's kernels for the CPU and another device, below autograd, and records their names.

#include <torch/library.h>

#include <set>
#include <string>
#include <utility>

namespace estrain::operators {

class Registry {
 public:
  // The registration of kernels for one kind of device.
  struct Place {
    torch::Library kernels, autograd;
    explicit Place(c10::DispatchKey key)
        : kernels(torch::Library::IMPL, "aten", key, __FILE__, __LINE__),
          autograd(torch::Library::IMPL, "aten", c10::getAutogradKeyFromBackend(c10::toBackendComponent(key)), __FILE__,
                   __LINE__) {}
  };

  // `device` may be null.
  Registry(Place& cpu, Place* device, std::set<std::string>& names) : cpu_(cpu), device_(device), names_(names) {}

  // `name`: without "aten::", with its overload ("mul.Tensor").
  template <typename Function>
  void replace(const std::string& name, Function* function) {
    cpu_.kernels.impl(name.c_str(), torch::CppFunction(function));
    replace_on_device(name, function);
    names_.insert("aten::" + name);
  }
  // For an operator whose CPU kernel is exact but whose device kernel is not.
  template <typename Function>
  void replace_on_device(const std::string& name, Function* function) {
    if (device_ != nullptr) device_->kernels.impl(name.c_str(), torch::CppFunction(function));
  }
  // For an operator that is exact anyway, of any type, and faster so on the CPU: it counts as LibTorch's.
  template <typename Function>
  void hasten(const std::string& name, Function* function) {
    cpu_.kernels.impl(name.c_str(), torch::CppFunction(function));
  }
  // For an operator that LibTorch composes of others: it gets its own derivative.
  template <typename Function>
  void replace_above_autograd(const std::string& name, Function* function) {
    cpu_.autograd.impl(name.c_str(), torch::CppFunction(function));
    if (device_ != nullptr) device_->autograd.impl(name.c_str(), torch::CppFunction(function));
    names_.insert("aten::" + name);
  }

 private:
  Place& cpu_;
  Place* device_;
  std::set<std::string>& names_;
};

// One function per file of operators.
void register_attention(Registry& registry);
void register_batched_matmul(Registry& registry);
void register_convolution(Registry& registry);
void register_copies(Registry& registry);
void register_ctc_loss(Registry& registry);
void register_cumulative(Registry& registry);
void register_distances(Registry& registry);
void register_elementwise(Registry& registry);
void register_embedding(Registry& registry);
void register_functions(Registry& registry);
void register_indexing(Registry& registry);
void register_linear(Registry& registry);
void register_loss(Registry& registry);
void register_matmul(Registry& registry);
void register_normalization(Registry& registry);
void register_padding(Registry& registry);
void register_pooling(Registry& registry);
void register_random(Registry& registry);
void register_recurrent(Registry& registry);
void register_reductions(Registry& registry);
void register_softmax(Registry& registry);
void register_sorting(Registry& registry);
void register_upsampling(Registry& registry);
void register_whole_numbers(Registry& registry);

}  // namespace estrain::operators
