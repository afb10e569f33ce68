#pragma once
// The fused multiply-adds that a core can do: a matrix product is measured against them.

#include "kernels/isa.h"

namespace estrain::benchmarks {

// Twelve independent chains, enough to hide the latency of an addition. One turn is 12 vectors.
#define ESTRAIN_FMA_TURN(r)                                                             \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "0\n vfmadd231ps %%" r "12, %%" r "13, %%" r \
  "1\n"                                                                                 \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "2\n vfmadd231ps %%" r "12, %%" r "13, %%" r \
  "3\n"                                                                                 \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "4\n vfmadd231ps %%" r "12, %%" r "13, %%" r \
  "5\n"                                                                                 \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "6\n vfmadd231ps %%" r "12, %%" r "13, %%" r \
  "7\n"                                                                                 \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "8\n vfmadd231ps %%" r "12, %%" r "13, %%" r \
  "9\n"                                                                                 \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "10\n vfmadd231ps %%" r "12, %%" r "13, %%" r "11\n"
#define ESTRAIN_FMA_LOOP(r, target_name, registers)                                                                  \
  __attribute__((target(target_name))) inline void fma_turns_##registers(long turns) {                               \
    asm volatile("1:\n" ESTRAIN_FMA_TURN(r) "sub $1, %0\n jnz 1b\n"                                                  \
                 : "+r"(turns)                                                                                       \
                 :                                                                                                   \
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
                   "xmm12", "xmm13", "cc");                                                                          \
  }
ESTRAIN_FMA_LOOP("zmm", "avx512f", zmm)
ESTRAIN_FMA_LOOP("ymm", "avx2,fma", ymm)
ESTRAIN_FMA_LOOP("xmm", "fma", xmm)
#undef ESTRAIN_FMA_LOOP
#undef ESTRAIN_FMA_TURN

// At least `operations` multiplications and additions, in vectors of `isa` (which has fused multiply-adds).
inline void fma_peak(double operations, kernels::Isa isa) {
  const int lanes = isa == kernels::Isa::avx512 ? 16 : isa == kernels::Isa::avx2 ? 8 : 4;
  const long turns = static_cast<long>(operations / (2.0 * 12 * lanes)) + 1;
  if (isa == kernels::Isa::avx512) {
    fma_turns_zmm(turns);
  } else if (isa == kernels::Isa::avx2) {
    fma_turns_ymm(turns);
  } else {
    fma_turns_xmm(turns);
  }
}

}  // namespace estrain::benchmarks
