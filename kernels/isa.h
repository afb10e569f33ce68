#pragma once
// The instruction sets for which every CPU kernel is compiled, and the choice at run time.
//
// Kernels of exact order (digest.h, sum.h, and all of portable/) give the same bits on all instruction sets. The
// optimizers (optimizer.h), like ATen, fuse multiply and add if the instruction set can: baseline rounds twice, the
// other instruction sets agree.

namespace estrain::kernels {

enum class Isa {
  baseline,  // x86-64: SSE2, no fused multiply-add (portable/ computes it in double). ATEN_CPU_CAPABILITY=default
  fma128,    // 128-bit vectors with FMA
  avx2,      // AVX2 and FMA
  avx512,    // AVX-512 F, BW, DQ, VL
};

// Returns the widest instruction set of this machine.
Isa best_isa();

// "baseline", "fma128", "avx2", "avx512"
const char* isa_name(Isa isa);

}  // namespace estrain::kernels
