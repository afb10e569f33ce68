#pragma once
// Calls of the operators for which LibTorch has no deterministic GPU kernel (core/engine/operators/deterministic.h).

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

namespace estrain::operators {

// Brings an operand to the device of the case.
using To = std::function<at::Tensor(const at::Tensor&)>;

struct NondeterministicCase {
  std::string name;  // of the operator, without "aten::", with the overload, then a space and words
  std::function<std::vector<at::Tensor>(const To& to)> call;
  bool is_silent = false;  // LibTorch's GPU kernel raises no error

  std::string op() const { return name.substr(0, name.find(' ')); }
};

// Operands are drawn anew from LibTorch's generator at each call: set its seed before.
std::vector<NondeterministicCase> nondeterministic_cases();

}  // namespace estrain::operators
