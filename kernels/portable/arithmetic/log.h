#pragma once
// Natural logarithms, at most 1 ulp off (measured by the tests). The argument is 2^e * (1 + f) with 1 + f in
// [2/3, 4/3); log(1 + f) = f + f^2 t(f), t of degree 8 with minimax coefficients (the first is -1/2), and
// e ln 2 is added by the last fused operation.
// log(+-0) = -infinity, log of a negative number is NaN, denormals are numbers like others.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

// log(1 + f) + e ln 2.
ESTRAIN_FUNCTION Floats logarithm_of(Floats f, Floats e) {
  constexpr float t[] = {-0.5f,        0.333332181f,  -0.249997988f, 0.20010376f,  -0.166804656f,
                         0.140062958f, -0.121845327f, 0.139825612f,  -0.128905639f};
  return fused(e, broadcast(0.693147182f), fused(f * f, polynomial(f, t), f));
}

// e of a positive normal number.
ESTRAIN_FUNCTION Integers logarithm_exponent(Floats x) { return (integers_of(x) - 0x3F2AAAAB) >> 23; }

// x * 2^-e by its exponent bits; x and the result are normal.
ESTRAIN_FUNCTION Floats lowered_by_power(Floats x, Integers e) {
  return floats_of(bits_of(x) - (__builtin_bit_cast(Bits, e) << 23));
}

// What `regular` is not: the values at and beyond the ends of the domain (0, infinity) of `x`.
ESTRAIN_FUNCTION Floats logarithm_at_ends(Floats x, Floats regular) {
  const Floats infinity = broadcast(__builtin_inff());
  regular = x == infinity ? infinity : regular;
  regular = x == broadcast(0.0f) ? broadcast(-__builtin_inff()) : regular;
  return x >= broadcast(0.0f) ? regular : broadcast(__builtin_nanf(""));
}

ESTRAIN_FUNCTION Floats logarithm(Floats x) {
  const Floats smallest = broadcast(1.17549435e-38f);
  const Floats normal = x < smallest ? x * 8388608.0f : x;
  const Integers e = logarithm_exponent(normal);
  const Floats exponent = converted(e) - (x < smallest ? broadcast(23.0f) : broadcast(0.0f));
  return logarithm_at_ends(x, logarithm_of(lowered_by_power(normal, e) - 1.0f, exponent));
}

// log(1 + x) without the rounding of 1 + x, whose exponent alone is used: f = x 2^-e + (2^-e - 1).
ESTRAIN_FUNCTION Floats logarithm_plus_one(Floats x) {
  const Floats u = x + 1.0f;
  const Integers e = logarithm_exponent(u);
  const Floats power = x > broadcast(1e18f) ? broadcast(0.0f) : lowered_by_power(broadcast(1.0f), e);
  const Floats f = lowered_by_power(x, e) + (power - 1.0f);
  const Floats result = logarithm_at_ends(u, logarithm_of(f, converted(e)));
  return x == broadcast(0.0f) ? x : result;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
