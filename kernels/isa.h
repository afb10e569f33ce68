#pragma once
// The instruction sets for which every CPU kernel is compiled, and the choice at run time.
//
// Kernels of exact order (digest.h, sum.h, and all of portable/) give the same bits on all of them. The optimizers
// (optimizer.h) fuse multiply and add if the instruction set can, like ATen: baseline rounds twice, the others
// agree.

namespace estrain::kernels {

enum class Isa {
  baseline,  // x86-64: SSE2, no fused multiply-add (portable/ computes it in double). ATEN_CPU_CAPABILITY=default
  fma128,    // 128-bit vectors with FMA
  avx2,      // AVX2 and FMA
  avx512,    // AVX-512 F, BW, DQ, VL
};

// The widest one that this machine supports.
Isa best_isa();

// "baseline", "fma128", "avx2", "avx512"
const char* isa_name(Isa isa);

}  // namespace estrain::kernels
