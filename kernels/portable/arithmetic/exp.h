#pragma once
// e^x, at most 0.8 ulp off (measured by the tests): x = k ln 2 + r with k the nearest integer and |r| <= ln 2 / 2, the
// remainder taken with ln 2 in two parts, then 2^k * (1 + r + r^2 q(r)), q of degree 4 with minimax coefficients.
// Overflow gives infinity, underflow is gradual (one rounding to a denormal), NaN gives NaN.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

// y * 2^k, k an integer in [-252, 254] held as a float; y in [0.5, 2]. Rounded once.
ESTRAIN_FUNCTION Floats times_power_of_two(Floats y, Floats k) {
#ifdef ESTRAIN_SCALES_BY_POWERS
  return scaled_by_power(y, k);
#else
  // Two factors, since 2^k itself may be no float. The first product is exact.
  const Integers exponent = integers_of(k + 12582912.0f);  // 1.5 * 2^23: the integer in its low bits
  const Integers whole = exponent - 0x4B400000;
  const Integers half = whole >> 1;
  return (y * floats_of((half + 127) << 23)) * floats_of((whole - half + 127) << 23);
#endif
}

// x as k ln 2 + r.
struct ReducedExponent {
  Floats k, r;
};
ESTRAIN_FUNCTION ReducedExponent reduced_exponent(Floats x) {
  const Floats k = fused(x, broadcast(1.44269502f), broadcast(12582912.0f)) - 12582912.0f;
  return {k, fused(k, broadcast(1.90465421e-09f), fused(k, broadcast(-0.693147182f), x))};
}

// e^r - 1 = r + r^2 q(r) for |r| <= ln 2 / 2: q.
ESTRAIN_FUNCTION Floats exponential_tail(Floats r) {
  constexpr float q[] = {0.49999994f, 0.166665211f, 0.0416683815f, 0.00836871006f, 0.00138148281f};
  return polynomial(r, q);
}

// For x <= 89: what a softmax has. 1 + r is rounded to s, and what that lost is added with the tail.
ESTRAIN_FUNCTION Floats exponential_to_89(Floats x) {
  x = greater(broadcast(-104.0f), x);  // e^-104 rounds to 0
  const ReducedExponent reduced = reduced_exponent(x);
  const Floats r = reduced.r, s = 1.0f + r, lost = (1.0f - s) + r;
  return times_power_of_two(s + fused(r * r, exponential_tail(r), lost), reduced.k);
}

ESTRAIN_FUNCTION Floats exponential(Floats x) {
  return exponential_to_89(lesser(broadcast(89.0f), x));  // e^89 is beyond the floats
}

// e^x - 1 = 2 * (t w + (t - 1/2)) with t = 2^(k - 1), w = r + r^2 q(r): exact where it cancels. At most 1 ulp off.
ESTRAIN_FUNCTION Floats exponential_minus_one(Floats x) {
  const Floats bounded = greater(broadcast(-30.0f), lesser(broadcast(89.0f), x));  // e^-30 is nothing beside 1
  const ReducedExponent reduced = reduced_exponent(bounded);
  const Floats r = reduced.r, w = fused(r * r, exponential_tail(r), r);
  const Integers exponent = integers_of(reduced.k + 12582912.0f) - 0x4B400000;
  const Floats t = floats_of((exponent + 126) << 23);
  return absolute(x) < broadcast(2.98023224e-08f) ? x : fused(t, w, t - 0.5f) * 2.0f;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
