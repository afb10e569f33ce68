#pragma once
#include "kernels/per_isa.h"
#include "kernels/portable/gemm.h"

namespace estrain::kernels {

struct GemmLoops {
  void (*run)(const portable::Gemm& gemm, const Execution& execution);
};
ESTRAIN_PER_ISA(GemmLoops, gemm_loops);

}  // namespace estrain::kernels
