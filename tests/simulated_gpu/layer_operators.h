#pragma once
// LibTorch's batch norm and cells of an LSTM on a simulated GPU: operators that the CPU lacks or computes with other
// results.

#include <ATen/core/stack.h>

#include <string>

namespace estrain::simulated {

// Computes an operator's results from its arguments. Below its dispatch, without autograd.
using LayerOperator = torch::jit::Stack (*)(const torch::jit::Stack& given);

// Returns null for any other operator.
LayerOperator layer_operator_of(const std::string& name);

}  // namespace estrain::simulated
