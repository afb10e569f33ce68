#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/loops/window_axis.h"

namespace estrain::kernels {

// The arguments of portable/pooling.h's functions, with the same names. Adaptive windows use only the axes' sizes.
struct PoolingArguments {
  int64_t planes;
  WindowAxis h, w;
  bool count_include_pad;
  int64_t divisor_override;
  const float *x, *dy;
  float *y, *dx;
  int64_t* indices;  // written forward, read backward
};

struct PoolingLoops {
  void (*max)(const PoolingArguments&, const Execution&);
  void (*max_backward)(const PoolingArguments&, const Execution&);
  void (*average)(const PoolingArguments&, const Execution&);
  void (*average_backward)(const PoolingArguments&, const Execution&);
  void (*adaptive_max)(const PoolingArguments&, const Execution&);
  void (*adaptive_max_backward)(const PoolingArguments&, const Execution&);
  void (*adaptive_average)(const PoolingArguments&, const Execution&);
  void (*adaptive_average_backward)(const PoolingArguments&, const Execution&);
};
ESTRAIN_PER_ISA(PoolingLoops, pooling_loops);

}  // namespace estrain::kernels
