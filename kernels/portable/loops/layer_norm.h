#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/order.h"

namespace estrain::kernels {

// The arguments of portable/layer_norm.h's functions, with the same names.
struct LayerNormArguments {
  int64_t rows, d;
  float eps;
  const float *x, *dy, *gamma, *beta;
  float *y, *mean, *rstd;  // mean and rstd: outputs of forward, inputs of backward
  float *dx, *dgamma, *dbeta;
  float* partial;  // backward: 2 * d floats for each block of rows
};

using portable::kLayerNormRowBlock;

struct LayerNormLoops {
  void (*forward)(const LayerNormArguments&, const Execution&);
  void (*backward)(const LayerNormArguments&, const Execution&);
};
ESTRAIN_PER_ISA(LayerNormLoops, layer_norm_loops);

}  // namespace estrain::kernels
