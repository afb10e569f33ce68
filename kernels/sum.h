#pragma once
// The float operations of gradient folding: dst[i] = ... for i in [0, n), every operation rounded by itself (IEEE
// single precision, nothing fused, nothing flushed to zero), so every instruction set gives the same bits.
//
// Arrays of any length and alignment (64 bytes is fastest). dst may be any of the inputs; other overlap is not allowed.

#include <stddef.h>

#include "kernels/isa.h"

namespace estrain::kernels {

// src * factor
void scale(float* dst, const float* src, float factor, size_t n, Isa isa = best_isa());

// a + b
void add(float* dst, const float* a, const float* b, size_t n, Isa isa = best_isa());

// a + src * factor, two roundings: scale, then add.
void add_scaled(float* dst, const float* a, const float* src, float factor, size_t n, Isa isa = best_isa());

// operands[0] + (operands[1] + (… + (operands[num_operands - 1] + src * factor))): folds an EST's gradient that
// completes several nodes of the reduction tree at once, outermost node first. Reads the gradient once.
void fold_scaled(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                 size_t n, Isa isa = best_isa());

// a + (+0): folds a gradient with an absent gradient. Turns -0 into +0, and keeps every other value.
void add_zero(float* dst, const float* a, size_t n, Isa isa = best_isa());

}  // namespace estrain::kernels
