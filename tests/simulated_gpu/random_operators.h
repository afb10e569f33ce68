#pragma once
// LibTorch's operators that draw random numbers on a simulated GPU, and operators that repeat the same draws. The
// simulation computes these operators with numbers of its own, a function of the state of the device's generator.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace estrain::simulated {

// The state of a generator.
struct Philox {
  uint64_t seed, offset;
};

// Computes an operator's results from its arguments. Below its dispatch, without autograd.
using Drawing = torch::jit::Stack (*)(const torch::jit::Stack& given, const Philox& numbers);

// Returns null for an operator that draws nothing. Ends the process for an unknown operator that draws.
Drawing drawing_of(const c10::OperatorHandle& op);

}  // namespace estrain::simulated
