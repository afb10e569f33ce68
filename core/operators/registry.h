#pragma once
// Puts kernels in place of LibTorch's for the CPU, below autograd, and remembers which.

#include <torch/library.h>

#include <set>
#include <string>
#include <utility>

namespace estrain::operators {

class Registry {
 public:
  Registry(torch::Library& cpu, torch::Library& autograd, std::set<std::string>& names)
      : cpu_(cpu), autograd_(autograd), names_(names) {}

  // `name`: without "aten::", with its overload ("mul.Tensor").
  template <typename Function>
  void replace(const std::string& name, Function* function) {
    cpu_.impl(name.c_str(), torch::CppFunction(function));
    names_.insert("aten::" + name);
  }
  // For an operator that LibTorch composes of others: it gets a derivative of its own.
  template <typename Function>
  void replace_above_autograd(const std::string& name, Function* function) {
    autograd_.impl(name.c_str(), torch::CppFunction(function));
    names_.insert("aten::" + name);
  }

 private:
  torch::Library& cpu_;
  torch::Library& autograd_;
  std::set<std::string>& names_;
};

// One per file of operators.
void register_attention(Registry& registry);
void register_convolution(Registry& registry);
void register_elementwise(Registry& registry);
void register_embedding(Registry& registry);
void register_loss(Registry& registry);
void register_matmul(Registry& registry);
void register_normalization(Registry& registry);
void register_pooling(Registry& registry);
void register_random(Registry& registry);
void register_reductions(Registry& registry);
void register_softmax(Registry& registry);
void register_upsampling(Registry& registry);

}  // namespace estrain::operators
