#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/loops/window_axis.h"

namespace estrain::kernels {

// The arguments of portable/depthwise.h's functions, with the same names.
struct DepthwiseArguments {
  int64_t n, channels, multiplier;
  WindowAxis h, w;
  const float *x, *dy, *filters, *bias;
  float *y, *dx, *dfilters;
};

struct DepthwiseLoops {
  void (*forward)(const DepthwiseArguments&, const Execution&);
  void (*backward_data)(const DepthwiseArguments&, const Execution&);
  void (*backward_filter)(const DepthwiseArguments&, const Execution&);
};
ESTRAIN_PER_ISA(DepthwiseLoops, depthwise_loops);

}  // namespace estrain::kernels
