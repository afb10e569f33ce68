#pragma once
// LibTorch's convolution, batch norm and cells of an LSTM on a simulated GPU. LibTorch lacks these operators on the
// CPU, or gives other results there.

#include <ATen/core/stack.h>

#include <string>

namespace estrain::simulated {

// Computes an operator's results from its arguments. Below its dispatch, without autograd.
using LayerOperator = torch::jit::Stack (*)(const torch::jit::Stack& given);

// Returns the function for the operator of this name; null for an operator without a function here.
LayerOperator layer_operator_of(const std::string& name);

}  // namespace estrain::simulated
