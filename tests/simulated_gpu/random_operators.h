#pragma once
// LibTorch's operators that draw random numbers on a simulated GPU, and those that draw the same ones again. The
// simulation computes them in its own way, with numbers of its own: a function of where the device's generator stands.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace estrain::simulated {

// Of a generator.
struct Philox {
  uint64_t seed, offset;
};

// An operator's results, of what it is given. Below its dispatch, without autograd.
using Drawing = torch::jit::Stack (*)(const torch::jit::Stack& given, const Philox& numbers);

// Null: it draws none. Ends the process for one that does and is not known here.
Drawing drawing_of(const c10::OperatorHandle& op);

}  // namespace estrain::simulated
