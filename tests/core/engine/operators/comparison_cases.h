#pragma once
// Calls of the portable operators that are compared with LibTorch's own: operands of no dimension, of one element and
// of none, broadcast, expanded and with any strides.

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace estrain::operators::comparing {

struct Comparison {
  std::string name;  // of the operator without other forms: "aten::add.Tensor"
  std::string what;
  std::vector<c10::IValue> arguments;
  double tolerance = 1e-6;           // relative to the largest element of the result
  bool draws = false;                // random numbers: their values are other ones
  std::vector<size_t> scratch = {};  // results that only the operator's own backward pass reads
  bool has_gradients = false;        // compared too: it is replaced together with its derivative
};

// Draws with the kernels in force: LibTorch's, if no portable ones are registered.
std::vector<Comparison> comparisons();

}  // namespace estrain::operators::comparing
