#pragma once
// The instruction sets that every CPU kernel is compiled for, and the choice between them at run time.
//
// Kernels of exact order (digest.h, sum.h) give the same bits on all three. Those that multiply and add (optimizer.h)
// fuse the two where the instruction set can, as ATen does: avx2 and avx512 agree, baseline rounds twice.

namespace estrain::kernels {

enum class Isa {
  baseline,  // x86-64: SSE2, no fused multiply-add. What ATEN_CPU_CAPABILITY=default does
  avx2,      // AVX2 and FMA
  avx512,    // AVX-512 F, BW, DQ, VL
};

// The widest one that this machine has.
Isa best_isa();

// "baseline", "avx2", "avx512"
const char* isa_name(Isa isa);

}  // namespace estrain::kernels
