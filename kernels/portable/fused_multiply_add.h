#pragma once
// out[i] = a[i] * b[i] + c[i], rounded once: the basic operation of the portable kernels. Uses the hardware's if there
// is one, otherwise computes in double (kernels/vector_baseline.h) with the same bits except for NaN payloads.

#include <stddef.h>

#include "kernels/isa.h"

namespace estrain::kernels::portable {

// n floats each, any alignment; `out` may be any of the inputs.
void fused_multiply_add(float* out, const float* a, const float* b, const float* c, size_t n, Isa isa = best_isa());

}  // namespace estrain::kernels::portable
