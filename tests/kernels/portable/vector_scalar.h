#pragma once
// A float in place of a vector, for arithmetic/ outside the instruction sets: a GPU thread computes in this form.

#include <stddef.h>
#include <stdint.h>

#include <cmath>

#define ESTRAIN_ONE_LANE

namespace estrain::kernels::scalar {

using Floats = float;

inline float broadcast(float x) { return x; }
inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline float lesser(float a, float b) { return a < b ? a : b; }
inline float greater(float a, float b) { return a > b ? a : b; }
inline float square_root(float x) { return std::sqrt(x); }

}  // namespace estrain::kernels::scalar
