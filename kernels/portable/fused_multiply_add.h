#pragma once
// out[i] = a[i] * b[i] + c[i], rounded once: the operation that the portable kernels are made of. Hardware's where it
// has one, else computed in double (kernels/vector_baseline.h), with the same bits, NaN payloads apart.

#include <stddef.h>

#include "kernels/isa.h"

namespace estrain::kernels::portable {

// n floats each, any alignment; `out` may be any of the inputs.
void fused_multiply_add(float* out, const float* a, const float* b, const float* c, size_t n, Isa isa = best_isa());

}  // namespace estrain::kernels::portable
