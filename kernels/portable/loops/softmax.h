#pragma once
// The loops of kernels/portable/softmax.h, once for each instruction set, and their arguments.

#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

struct SoftmaxArguments {
  float* out;
  const float* x;         // forward: the input; backward: the result
  const float* gradient;  // backward
  int64_t outer, dim, inner;
};

struct SoftmaxLoops {
  void (*softmax)(const SoftmaxArguments& arguments, const Execution& execution);
  void (*log_softmax)(const SoftmaxArguments& arguments, const Execution& execution);
  void (*softmax_backward)(const SoftmaxArguments& arguments, const Execution& execution);
  void (*log_softmax_backward)(const SoftmaxArguments& arguments, const Execution& execution);
};
ESTRAIN_PER_ISA(SoftmaxLoops, softmax_loops);

}  // namespace estrain::kernels
