#pragma once
// e^x and e^x - 1, at most 0.58 ulp off (measured by the tests): x = k ln 2 + r with k the nearest integer
// and |r| <= ln 2 / 2. r = x - k * float(ln 2) is exact, and the remainder `low` = k * (float(ln 2) - ln 2)
// is carried separately. Sums of large terms keep their rounding errors, so only the last addition rounds
// noticeably. Overflow gives infinity, underflow is gradual (one more rounding to a denormal), NaN gives
// NaN.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

// y * 2^k, k an integer in [-252, 254] held as a float; y in [0.5, 2]. Rounded once.
ESTRAIN_FUNCTION Floats times_power_of_two(Floats y, Floats k) {
#ifdef ESTRAIN_SCALES_BY_POWERS
  return scaled_by_power(y, k);
#else
  // Two factors, since 2^k itself may not be a float. The first product is exact.
  const Integers exponent = integers_of(k + 12582912.0f);  // 1.5 * 2^23: the integer in its low bits
  const Integers whole = exponent - 0x4B400000;
  const Integers half = whole >> 1;
  return (y * floats_of((half + 127) << 23)) * floats_of((whole - half + 127) << 23);
#endif
}

// x = k ln 2 + r + low.
struct ReducedExponent {
  Floats k, r, low;
};
ESTRAIN_FUNCTION ReducedExponent reduced_exponent(Floats x) {
  const Floats k = fused(x, broadcast(1.44269502f), broadcast(12582912.0f)) - 12582912.0f;
  return {k, fused(k, broadcast(-0.693147182f), x), k * 1.90465421e-09f};
}

// c(r), where e^r = 1 + r + r^2 / 2 + r^3 c(r) for |r| <= ln 2 / 2.
ESTRAIN_FUNCTION Floats exponential_tail(Floats r) {
  constexpr float c[] = {0.166666672f, 0.0416664891f, 0.00833320804f, 0.00139326858f, 0.000199442671f};
  return polynomial(r, c);
}

// 2^k e^(r + low): 1 + r is rounded to s. The tail is the rounding error plus r^2 / 2 (with an unrounded square) plus
// r^3 c(r) plus e^r * low.
ESTRAIN_FUNCTION Floats exponential_of(ReducedExponent x) {
  const Floats r = x.r, s = 1.0f + r, lost = (1.0f - s) + r;
  const Floats tail = fused(r * r * r, exponential_tail(r), fused(r * 0.5f, r, lost));
  return times_power_of_two(s + fused(x.low, s + tail, tail), x.k);
}

// For x <= 89, as in a softmax.
ESTRAIN_FUNCTION Floats exponential_to_89(Floats x) {
  return exponential_of(reduced_exponent(greater(broadcast(-104.0f), x)));  // e^-104 rounds to 0
}

ESTRAIN_FUNCTION Floats exponential(Floats x) {
  return exponential_to_89(lesser(broadcast(89.0f), x));  // e^89 is beyond the floats
}

// 2^k (1 + w) with about two roundings: k and w = r + r^2 (1/2 + r c(r)) with r rounded, for less exact
// formulas.
struct ScaledGrowth {
  Floats k, w;
};
ESTRAIN_FUNCTION ScaledGrowth rounded_growth(Floats x) {
  const ReducedExponent reduced = reduced_exponent(x);
  const Floats r = reduced.r + reduced.low;
  return {reduced.k, fused(r * r, fused(r, exponential_tail(r), broadcast(0.5f)), r)};
}

// 2^k (1 + high + low) for the reduced x: high = r + r^2 / 2 rounded; low has the rounding errors of the sum and the
// square, plus r^3 c(r), with an error of about 2^-31.
struct Growth {
  Floats k, high, low;
};
ESTRAIN_FUNCTION Growth growth(Floats x) {
  const ReducedExponent reduced = reduced_exponent(x);
  const Floats r = reduced.r, square = r * r, half = square * 0.5f;
  const Floats high = r + half, lost = (r - high) + half;
  const Floats rest = fused(fused(r, r, negated(square)), broadcast(0.5f), lost);
  const Floats low = fused(r * square, exponential_tail(r), rest);
  return {reduced.k, high, fused(reduced.low, high + 1.0f, low)};
}

// 2^(k + shift), a normal number.
ESTRAIN_FUNCTION Floats power_of_two(Floats k, int32_t shift) {
  return floats_of((integers_of(k + 12582912.0f) - (0x4B400000 - 127 - shift)) << 23);
}

// e^x - 1 = 2 ((t - 1/2) + t high + t low) with t = 2^(k - 1); the first two sums keep their rounding errors.
ESTRAIN_FUNCTION Floats exponential_minus_one(Floats x) {
  const Floats bounded = greater(broadcast(-16.98f), lesser(broadcast(89.0f), x));
  const Growth g = growth(bounded);
  const Floats t = power_of_two(g.k, -1);
  const Floats start = t - 0.5f, sum = fused(t, g.high, start);
  const Floats lost = fused(t, g.high, start - sum) + ((t - start) - 0.5f);
  const Floats result = (sum + fused(t, g.low, lost)) * 2.0f;
  const Floats above = absolute(x) < broadcast(2.98023224e-08f) ? x : result;
  return x < broadcast(-17.3286800f) ? broadcast(-1.0f) : above;  // e^-17.32868 = 2^-25
}

}  // namespace estrain::kernels::ESTRAIN_ISA
