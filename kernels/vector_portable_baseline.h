#pragma once
// The vectors of vector_baseline.h, but multiply_add() rounds once, as on every other instruction set. For loops that
// must give the same bits on all instruction sets.

#include "kernels/vector_baseline.h"

namespace estrain::kernels::portable_baseline {

using namespace baseline;

static inline Floats multiply_add(Floats a, Floats b, Floats c) { return fused(a, b, c); }

}  // namespace estrain::kernels::portable_baseline
