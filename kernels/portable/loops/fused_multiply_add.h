#pragma once
#include <stddef.h>

#include "kernels/per_isa.h"

namespace estrain::kernels {

struct FusedMultiplyAddLoops {
  void (*run)(float* out, const float* a, const float* b, const float* c, size_t n);
};
ESTRAIN_PER_ISA(FusedMultiplyAddLoops, fused_multiply_add_loops);

}  // namespace estrain::kernels
