#pragma once
// Logarithms, the natural ones at most 0.58 ulp off (measured by the tests). The argument is 2^e * (1 + f) with 1 + f
// in [2/3, 4/3); log(1 + f) = f - f^2 / 2 + f^3 t(f), t of degree 8 with minimax coefficients. The high part of ln 2
// has 15 bits, so the product of e and this part is exact. Sums of large terms keep their rounding errors; only the
// last addition rounds much. log(+-0) = -infinity, log of a negative number is NaN, denormals are ordinary numbers.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

// log(1 + f) as a float and a small remainder.
struct LogarithmParts {
  Floats high, low;
};
ESTRAIN_FUNCTION LogarithmParts logarithm_parts(Floats f) {
  constexpr float t[] = {0.333333343f,  -0.249998257f, 0.199996814f,  -0.166793585f, 0.143027186f,
                         -0.121985987f, 0.107695229f,  -0.128335163f, 0.119586363f};
  const Floats square = f * f, half = square * 0.5f;
  const Floats high = f - half, lost = (f - high) - half;
  const Floats rest = fused(fused(f, f, negated(square)), broadcast(-0.5f), lost);
  return {high, fused(f * square, polynomial(f, t), rest)};
}

// high + low + e ln 2.
ESTRAIN_FUNCTION Floats logarithm_sum(LogarithmParts parts, Floats e) {
  const Floats whole = e * 0.693145752f;  // exact
  const Floats sum = whole + parts.high, lost = (whole - sum) + parts.high;
  return sum + fused(e, broadcast(1.42860677e-06f), lost + parts.low);
}

// log(1 + f) + e ln 2.
ESTRAIN_FUNCTION Floats logarithm_of(Floats f, Floats e) { return logarithm_sum(logarithm_parts(f), e); }

// e of a positive normal number; unspecified for others.
ESTRAIN_FUNCTION Integers logarithm_exponent(Floats x) {
  return __builtin_bit_cast(Integers, bits_of(x) - 0x3F2AAAABu) >> 23;  // valid for any x: unsigned bits wrap around
}

// x * 2^-e by its exponent bits; x and the result are normal.
ESTRAIN_FUNCTION Floats lowered_by_power(Floats x, Integers e) {
  return floats_of(bits_of(x) - (__builtin_bit_cast(Bits, e) << 23));
}

// Returns `regular` within the domain (0, infinity) of `x`, and the special values at its ends and outside.
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

// e + log(1 + f) / ln 2, the quotient as a product with 1 / ln 2 = 1.44269502 + 1.92596303e-8 that keeps the rounding
// error. Exact for powers of two.
ESTRAIN_FUNCTION Floats logarithm_base_two(Floats x) {
  const Floats smallest = broadcast(1.17549435e-38f), factor = broadcast(1.44269502f);
  const Floats normal = x < smallest ? x * 8388608.0f : x;
  const Integers power = logarithm_exponent(normal);
  const Floats e = converted(power) - (x < smallest ? broadcast(23.0f) : broadcast(0.0f));
  const LogarithmParts parts = logarithm_parts(lowered_by_power(normal, power) - 1.0f);
  const Floats product = parts.high * factor, lost = fused(parts.high, factor, negated(product));
  const Floats rest = lost + fused(parts.low, factor, parts.high * 1.92596303e-08f);
  const Floats sum = e + product, lost_of_sum = (e - sum) + product;
  return logarithm_at_ends(x, sum + (lost_of_sum + rest));
}

// log(1 + x) without the rounding of 1 + x, whose exponent alone is used: f + rest = x 2^-e + (2^-e - 1), and
// log(1 + f + rest) = log(1 + f) + rest / (1 + f), where 1 - f + f^2 will do for the quotient.
ESTRAIN_FUNCTION Floats logarithm_plus_one(Floats x) {
  const Floats u = x + 1.0f;
  const Integers e = logarithm_exponent(u);
  const Floats power = x > broadcast(1e18f) ? broadcast(0.0f) : lowered_by_power(broadcast(1.0f), e);
  const Floats a = lowered_by_power(x, e), b = power - 1.0f;
  const Floats f = a + b, shadow = f - a;
  const Floats rest = (a - (f - shadow)) + (b - shadow);
  LogarithmParts parts = logarithm_parts(f);
  parts.low = fused(rest, fused(f, f - 1.0f, broadcast(1.0f)), parts.low);
  const Floats result = logarithm_at_ends(u, logarithm_sum(parts, converted(e)));
  return x == broadcast(0.0f) ? x : result;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
