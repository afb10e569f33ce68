#pragma once
// Vectors on a CPU with FMA, without 256-bit registers; the names of vector_baseline.h.

#include <immintrin.h>

#include "kernels/vector_four.h"

namespace estrain::kernels::fma128 {

using namespace four;

static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }
static inline Floats fused(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }

}  // namespace estrain::kernels::fma128
