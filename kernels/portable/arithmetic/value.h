#pragma once
// The type of the formulas in this folder: Floats, a vector of the including instruction set, or one float if
// ESTRAIN_VECTORS names such a header (CUDA, the tests' reference). The formulas use only IEEE add, multiply, divide,
// square root and fused(a, b, c), comparisons with ?: (a NaN compares false), and integer operations on the bits, so
// they give the same bits everywhere. The compiler must not contract a * b + c.

#include ESTRAIN_VECTORS

#ifndef ESTRAIN_FUNCTION
#ifdef __CUDACC__
#define ESTRAIN_FUNCTION static __host__ __device__ inline
#define ESTRAIN_LARGE_FUNCTION static __host__ __device__ inline
#define ESTRAIN_MEMBER __host__ __device__ inline
#else
#define ESTRAIN_FUNCTION static inline __attribute__((always_inline))
#define ESTRAIN_LARGE_FUNCTION static inline
#define ESTRAIN_MEMBER inline
#endif
#endif

namespace estrain::kernels::ESTRAIN_ISA {

#ifdef ESTRAIN_ONE_LANE
using Integers = int32_t;
using Bits = uint32_t;
ESTRAIN_FUNCTION Floats converted(Integers x) { return static_cast<float>(x); }
#else
using Integers = int32_t __attribute__((vector_size(sizeof(Floats))));
using Bits = uint32_t __attribute__((vector_size(sizeof(Floats))));
ESTRAIN_FUNCTION Floats converted(Integers x) { return __builtin_convertvector(x, Floats); }
#endif

ESTRAIN_FUNCTION Integers integers_of(Floats x) { return __builtin_bit_cast(Integers, x); }
ESTRAIN_FUNCTION Bits bits_of(Floats x) { return __builtin_bit_cast(Bits, x); }
ESTRAIN_FUNCTION Floats floats_of(Integers x) { return __builtin_bit_cast(Floats, x); }
ESTRAIN_FUNCTION Floats floats_of(Bits x) { return __builtin_bit_cast(Floats, x); }

ESTRAIN_FUNCTION Floats absolute(Floats x) { return floats_of(integers_of(x) & 0x7FFFFFFF); }
ESTRAIN_FUNCTION Floats negated(Floats x) { return floats_of(bits_of(x) ^ 0x80000000u); }
// The magnitude of `magnitude` (not negative) with the sign of `sign`.
ESTRAIN_FUNCTION Floats with_sign(Floats magnitude, Floats sign) {
  return floats_of(bits_of(magnitude) | (bits_of(sign) & 0x80000000u));
}
// coefficients[0] + x * (coefficients[1] + ...), by Horner's rule, each step fused.
template <int n>
ESTRAIN_FUNCTION Floats polynomial(Floats x, const float (&coefficients)[n]) {
  Floats sum = broadcast(coefficients[n - 1]);
#pragma GCC unroll 16
  for (int i = n - 2; i >= 0; --i) sum = fused(sum, x, broadcast(coefficients[i]));
  return sum;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
