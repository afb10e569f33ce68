#pragma once
// x^y = e^(y log |x|), at most 0.6 ulp off (measured by the tests), with the special cases of C's pow: 1 for y = 0 or x
// = 1, even with NaN; NaN for finite x < 0 unless y is an integer; the sign of x if y is an odd integer.
//
// |x| = 2^e m, m in [sqrt(1/2), sqrt 2); with s = (m - 1) / (m + 1), log m = 2 s + 2/3 s^3 + s^5 c(s^2). The logarithm
// and its product with y are each a float and a remainder, with an error of about 2^-35; then e^ as in exp.h.

#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"

namespace estrain::kernels::ESTRAIN_ISA {

// A number as high + low, with low about 2^-24 times high.
struct DoubleWord {
  Floats high, low;
};

// a + b for |a| >= |b| or a = 0.
ESTRAIN_FUNCTION DoubleWord ordered_sum(Floats a, Floats b) {
  const Floats sum = a + b;
  return {sum, (a - sum) + b};
}
ESTRAIN_FUNCTION DoubleWord exact_product(Floats a, Floats b) {
  const Floats product = a * b;
  return {product, fused(a, b, negated(product))};
}
ESTRAIN_FUNCTION DoubleWord times(DoubleWord a, DoubleWord b) {
  const DoubleWord product = exact_product(a.high, b.high);
  return {product.high, fused(a.high, b.low, fused(a.low, b.high, product.low))};
}

// log m + e ln 2.
ESTRAIN_FUNCTION DoubleWord double_logarithm(Floats m, Floats e) {
  constexpr float c[] = {0.399999976f, 0.285719723f, 0.221797019f, 0.195576549f};
  const Floats n = m - 1.0f, d = m + 1.0f, d_rest = m - (d - 1.0f);
  const Floats inverse = 1.0f / d, q = n * inverse;
  const Floats remainder = fused(negated(q), d, n) - q * d_rest;
  const DoubleWord s = {q, remainder * inverse};
  const DoubleWord square = times(s, s), cube = times(square, s);
  const DoubleWord third = times(cube, {broadcast(0.666666687f), broadcast(-1.98682149e-08f)});
  const DoubleWord whole = ordered_sum(e * 0.693145752f, s.high + s.high);  // the product is exact
  const DoubleWord sum = ordered_sum(whole.high, third.high);
  const Floats ends =
      fused(e, broadcast(1.42860677e-06f), fused(cube.high * square.high, polynomial(square.high, c), third.low));
  const Floats low = (whole.low + sum.low) + ((s.low + s.low) + ends);
  return ordered_sum(sum.high, low);
}

// log x for finite x > 0.
ESTRAIN_FUNCTION DoubleWord double_logarithm(Floats x) {
  const auto denormal = x < broadcast(1.17549435e-38f);
  const Floats normal = denormal ? x * 8388608.0f : x;
  const Integers e = __builtin_bit_cast(Integers, bits_of(normal) - 0x3F3504F3u) >> 23;
  const Floats exponent = converted(e) - (denormal ? broadcast(23.0f) : broadcast(0.0f));
  return double_logarithm(lowered_by_power(normal, e), exponent);
}

// a^y for a >= 0; 1 for a = 1, NaN for y = 0 and a = 0 or infinity.
ESTRAIN_FUNCTION Floats power_of_size(Floats a, Floats y) {
  const Floats infinity = broadcast(__builtin_inff());
  DoubleWord l = double_logarithm(a);
  l.high = a == broadcast(0.0f) ? broadcast(-__builtin_inff()) : l.high;
  l.high = a < infinity ? l.high : a;  // infinity and NaN
  const Floats p = y * l.high;
  const Floats rest = fused(y, l.low, fused(y, l.high, negated(p)));
  const auto inside = absolute(p) < broadcast(200.0f);  // otherwise 0, infinity or NaN
  ReducedExponent reduced = reduced_exponent(greater(broadcast(-104.0f), lesser(broadcast(89.0f), p)));
  reduced.low = reduced.low + (inside ? rest : broadcast(0.0f));
  return a == broadcast(1.0f) ? a : exponential_of(reduced);
}

ESTRAIN_FUNCTION Floats power(Floats x, Floats y) {
  const Floats one = broadcast(1.0f), zero = broadcast(0.0f), size = absolute(y);
  const Floats whole = size + 8388608.0f;  // for size < 2^23 the nearest integer is in its low bits
  const auto has_fraction = size < broadcast(8388608.0f) ? whole - 8388608.0f != size : size != size;
  const Floats bits = size < broadcast(8388608.0f) ? whole : size;
  const Floats odd_sign = floats_of(bits_of(x) & (bits_of(bits) << 31));
  const Floats sign = size < broadcast(16777216.0f) ? odd_sign : zero;
  const Floats of_size = power_of_size(absolute(x), y);
  const Floats whole_power = with_sign(of_size, sign);
  const Floats fraction_power =
      x < zero ? (x < broadcast(-3.40282347e38f) ? of_size : broadcast(__builtin_nanf(""))) : of_size;
  const Floats result = has_fraction ? fraction_power : whole_power;
  return x == one ? one : y == zero ? one : result;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
