#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

// The arguments of portable/batch_norm.h's functions, with the same names.
struct BatchNormArguments {
  int64_t n, channels, hw;
  float eps;
  const float *x, *dy, *weight, *bias;
  float *y, *mean, *invstd;  // outputs of a training forward, otherwise inputs; in evaluation running_mean, ...
  const float* variance;     // ... with the variance in this field, and invstd null
  float *running_mean, *running_var;
  float momentum, keep;
  float *dx, *dweight, *dbias;
};

struct BatchNormLoops {
  void (*train)(const BatchNormArguments&, const Execution&);
  void (*eval)(const BatchNormArguments&, const Execution&);
  void (*train_backward)(const BatchNormArguments&, const Execution&);
  void (*eval_backward)(const BatchNormArguments&, const Execution&);
};
ESTRAIN_PER_ISA(BatchNormLoops, batch_norm_loops);

}  // namespace estrain::kernels
