#pragma once
// Hyperbolic sine and cosine, and their inverse functions, at most 2.2 ulp off (measured by the tests).
//
// With h = e^|x| / 2, whose factor 1/2 goes into the exponent, so that only results above the floats overflow:
// cosh(x) = h + 1 / (4 h), sinh(x) = h - 1 / (4 h) from 1 on; below, with e = expm1(|x|), sinh(x) = (e + e / (e + 1))
// / 2. asinh(x) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))), acosh(x) = log1p(t + sqrt(2 t + t^2)) with t = x - 1; both are
// log(a) + ln 2 from 1e9 on, where a^2 could overflow. atanh(x) = log1p(2 a / (1 - a)) / 2. Outside of its domain a
// function is NaN.
//
// tanh(x) = n / d with n = e^2|x| - 1, d = e^2|x| + 1, both as a float and a small remainder (exp.h), and the sign of
// x. The quotient q = n * (1 / d) is corrected by its remainder n - q d. At most 0.56 ulp off (measured by the tests).

#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"

namespace estrain::kernels::ESTRAIN_ISA {

// e^x / 2 for x >= 0.
ESTRAIN_FUNCTION Floats half_exponential(Floats x) {
  ReducedExponent reduced = reduced_exponent(lesser(broadcast(90.0f), x));  // e^90 / 2 is beyond the floats
  reduced.k = reduced.k - 1.0f;
  return exponential_of(reduced);
}

ESTRAIN_FUNCTION Floats hyperbolic_sine(Floats x) {
  const Floats a = absolute(x), h = half_exponential(a), e = exponential_minus_one(lesser(broadcast(1.0f), a));
  const Floats small = (e + e / (e + 1.0f)) * 0.5f, large = h - 0.25f / h;
  const Floats size = a < broadcast(1.0f) ? small : large;
  return with_sign(a < broadcast(1e-4f) ? a : size, x);  // a^3 / 6 is less than half an ulp
}

ESTRAIN_FUNCTION Floats hyperbolic_cosine(Floats x) {
  const Floats h = half_exponential(absolute(x));
  return h + 0.25f / h;
}

// log(2 a) for a >= 1e9.
ESTRAIN_FUNCTION Floats logarithm_of_twice(Floats a) { return logarithm(a) + 0.693147182f; }

ESTRAIN_FUNCTION Floats inverse_hyperbolic_sine(Floats x) {
  const Floats a = absolute(x), square = a * a;
  const Floats near = logarithm_plus_one(a + square / (1.0f + square_root(square + 1.0f)));
  return with_sign(a < broadcast(1e9f) ? near : logarithm_of_twice(a), x);
}

ESTRAIN_FUNCTION Floats inverse_hyperbolic_cosine(Floats x) {
  const Floats t = x - 1.0f, near = logarithm_plus_one(t + square_root(fused(t, t, t + t)));
  const Floats inside = x > broadcast(1e9f) ? logarithm_of_twice(x) : near;
  return x >= broadcast(1.0f) ? inside : broadcast(__builtin_nanf(""));
}

ESTRAIN_FUNCTION Floats inverse_hyperbolic_tangent(Floats x) {
  const Floats a = absolute(x);
  return with_sign(logarithm_plus_one((a + a) / (1.0f - a)) * 0.5f, x);
}

ESTRAIN_FUNCTION Floats hyperbolic_tangent(Floats x) {
  const Floats a = absolute(x), bounded = lesser(broadcast(8.49f), a);  // tanh(8.49) rounds to 1 - 2^-24
  Growth g = growth(bounded + bounded);
  const Floats w = g.high + g.low;
  g.low = (g.high - w) + g.low;
  g.high = w;
  const Floats t = power_of_two(g.k, 0), below = t - 1.0f, above = t + 1.0f;
  const Floats n = fused(t, g.high, below), n_rest = fused(t, g.low, fused(t, g.high, below - n));
  const Floats d = fused(t, g.high, above);
  const Floats d_rest = fused(t, g.low, fused(t, g.high, above - d) + ((t - above) + 1.0f));
  const Floats inverse = 1.0f / d, q = n * inverse;
  const Floats remainder = fused(negated(q), d, n) + fused(negated(q), d_rest, n_rest);
  const Floats quotient = fused(remainder, inverse, q);
  return with_sign(a > broadcast(9.01091290f) ? broadcast(1.0f) : quotient, x);  // tanh = 1 - 2^-25
}

}  // namespace estrain::kernels::ESTRAIN_ISA
