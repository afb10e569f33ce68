#pragma once
// Access to code compiled once per instruction set (modules marked PER_ISA). Each such file defines a constant table of
// function pointers, `const Type name = {...};` in namespace estrain::kernels::ESTRAIN_ISA.
//
// ESTRAIN_PER_ISA(Type, name), in a header within namespace estrain::kernels, declares the tables and name(isa), which
// selects a table. The caller must not ask for more than best_isa().
//
// Code compiled for AVX must never run on a machine without AVX, so such a file shares no compiled code with the rest
// of the program: definitions are static or in the namespace of the instruction set, the included headers define no
// inline function with external linkage, and the file does not use the C++ standard library.

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
