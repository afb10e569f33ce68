#pragma once
// How code compiled once per instruction set (modules marked PER_ISA) is reached: each such file defines one constant
// table of function pointers, `const Type name = {...};` in namespace estrain::kernels::ESTRAIN_ISA.
//
// ESTRAIN_PER_ISA(Type, name), in a header within namespace estrain::kernels, declares the tables and name(isa), which
// chooses. The caller asks for no more than best_isa().
//
// Code compiled for AVX must never run on a machine without it, so nothing that such a file compiles may be shared with
// the rest of the program: what it defines is static or in its namespace, headers that it includes define no inline
// function of external linkage, and none of the C++ standard library is used there.

#include "kernels/isa.h"

#define ESTRAIN_PER_ISA(Type, name)         \
  namespace baseline {                      \
  extern const Type name;                   \
  }                                         \
  namespace fma128 {                        \
  extern const Type name;                   \
  }                                         \
  namespace avx2 {                          \
  extern const Type name;                   \
  }                                         \
  namespace avx512 {                        \
  extern const Type name;                   \
  }                                         \
  static inline const Type& name(Isa isa) { \
    switch (isa) {                          \
      case Isa::avx512:                     \
        return avx512::name;                \
      case Isa::avx2:                       \
        return avx2::name;                  \
      case Isa::fma128:                     \
        return fma128::name;                \
      case Isa::baseline:                   \
        break;                              \
    }                                       \
    return baseline::name;                  \
  }                                         \
  static_assert(true)
