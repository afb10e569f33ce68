#pragma once
// One float, the type for portable/arithmetic in a GPU thread. Built with -fmad=false, -ftz=false,
// -prec-div=true and -prec-sqrt=true, every operation is IEEE's, and only fused() fuses multiply and
// add.

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/grid.h"

#define ESTRAIN_ONE_LANE

namespace estrain::kernels::cuda {

using Floats = float;

__host__ __device__ inline float broadcast(float x) { return x; }
__host__ __device__ inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__host__ __device__ inline float lesser(float a, float b) { return a < b ? a : b; }
__host__ __device__ inline float greater(float a, float b) { return a > b ? a : b; }
__host__ __device__ inline float square_root(float x) { return __builtin_sqrtf(x); }
__host__ __device__ inline float multiply_add(float a, float b, float c) { return fused(a, b, c); }

}  // namespace estrain::kernels::cuda
