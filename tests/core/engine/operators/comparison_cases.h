#pragma once
// Calls of the portable operators that are compared with LibTorch's own: operands without dimension, of one element and
// without elements, broadcast, expanded and with any strides.

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace estrain::operators::comparing {

struct Comparison {
  std::string name;  // of the operator, not of its other forms: "aten::add.Tensor"
  std::string what;
  std::vector<c10::IValue> arguments;
  double tolerance = 1e-6;           // relative to the largest element of the result
  bool draws = false;                // random numbers: the values differ and are not compared
  std::vector<size_t> scratch = {};  // results that only the operator's own backward pass reads
  bool has_gradients = false;        // compared too: a gradient is replaced together with its derivative
};

// Draws with the kernels in force: LibTorch's, if no portable kernels are registered.
std::vector<Comparison> comparisons();

}  // namespace estrain::operators::comparing
