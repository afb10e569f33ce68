#pragma once
// The loops of kernels/portable/gemm.h, once for each instruction set.

#include "kernels/per_isa.h"
#include "kernels/portable/gemm.h"

namespace estrain::kernels {

struct GemmLoops {
  void (*run)(const portable::Gemm& gemm, const Execution& execution);
};
ESTRAIN_PER_ISA(GemmLoops, gemm_loops);

}  // namespace estrain::kernels
