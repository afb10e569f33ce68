#pragma once
// The loops of kernels/portable/random.h, once for each instruction set, and their arguments.

#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/philox.h"

namespace estrain::kernels {

struct RandomArguments {
  float* out;
  const float* x;  // dropout: the input; bernoulli: a probability for each element, or null
  bool* mask;      // dropout; may be null
  float
      numbers[2];  // uniform: from, to. normal: mean, deviation. bernoulli: p. exponential: rate. dropout: keep, scale
  PhiloxCounter counter;
  int64_t n;
};
using Random = void (*)(const RandomArguments& arguments, const Execution& execution);

struct RandomLoops {
  Random uniform, normal, bernoulli, exponential, dropout;
  // The words of groups [first, first + groups), in the order of elements.
  void (*words)(uint32_t* out, int64_t first, int64_t groups, const PhiloxCounter& counter);
  void (*dropout_backward)(float* out, const float* gradient, const bool* mask, int64_t n, float scale,
                           const Execution& execution);
};
ESTRAIN_PER_ISA(RandomLoops, random_loops);

}  // namespace estrain::kernels
