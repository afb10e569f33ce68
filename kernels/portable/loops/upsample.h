#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

// The inputs of every output along a dimension.
struct UpsampleAxis {
  int64_t in, out;
  const int64_t *first, *second;              // inputs; nearest: `first` alone
  const float *first_weight, *second_weight;  // a and b of portable/upsample.h
  bool doubled;                               // nearest with twice as many outputs: output o reads input o / 2
};

struct UpsampleArguments {
  int64_t planes;
  UpsampleAxis h, w;
  const float *x, *dy;
  float *y, *dx;
};

struct UpsampleLoops {
  void (*nearest)(const UpsampleArguments&, const Execution&);
  void (*nearest_backward)(const UpsampleArguments&, const Execution&);
  void (*bilinear)(const UpsampleArguments&, const Execution&);
  void (*bilinear_backward)(const UpsampleArguments&, const Execution&);
};
ESTRAIN_PER_ISA(UpsampleLoops, upsample_loops);

}  // namespace estrain::kernels
