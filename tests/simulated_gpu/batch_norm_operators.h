#pragma once
// LibTorch's operators of batch norm on a simulated GPU, where the CPU has others, or gives other results by the name.

#include <ATen/core/stack.h>

#include <string>

namespace estrain::simulated {

// An operator's results, of what it is given. Below its dispatch, without autograd.
using BatchNorm = torch::jit::Stack (*)(const torch::jit::Stack& given);

// Null: it is no such operator.
BatchNorm batch_norm_of(const std::string& name);

}  // namespace estrain::simulated
