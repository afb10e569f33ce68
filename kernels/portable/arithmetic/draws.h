#pragma once
// Converts the words of Philox to kernels/portable/random.h's numbers.

#include "kernels/portable/arithmetic/log.h"
#include "kernels/portable/arithmetic/trigonometry.h"

namespace estrain::kernels::ESTRAIN_ISA {

// Converts a word to a float in [0, 1), or to a float in (0, 1].
ESTRAIN_FUNCTION Floats unit_below_one(Bits word) {
  return converted(__builtin_bit_cast(Integers, word >> 8)) * 5.96046448e-08f;
}
ESTRAIN_FUNCTION Floats unit_above_zero(Bits word) {
  return converted(__builtin_bit_cast(Integers, (word >> 8) + 1)) * 5.96046448e-08f;
}

// A float in [from, to).
ESTRAIN_FUNCTION Floats drawn_uniform(Bits word, float from, float to) {
  const Floats x = fused(unit_below_one(word), broadcast(to - from), broadcast(from));
  return x >= broadcast(to) ? broadcast(from) : x;
}

// Converts the first two or the last two words of a block to two numbers.
struct NormalPair {
  Floats first, second;
};
ESTRAIN_FUNCTION NormalPair drawn_normals(Bits first, Bits second, float mean, float deviation) {
  const Floats v = unit_above_zero(first);
  const Integers e = logarithm_exponent(v);
  const Floats logarithm = logarithm_of(lowered_by_power(v, e) - 1.0f, converted(e));
  const Floats radius = square_root(logarithm * -2.0f);
  const Floats turns = unit_below_one(second) * 4.0f;
  const Floats shifted = turns + 12582912.0f;  // to the nearest integer
  const Floats r = (turns - (shifted - 12582912.0f)) * 1.57079637f;
  const SineAndCosine direction = sine_and_cosine({r, broadcast(0.0f), integers_of(shifted)});
  return {fused(radius * direction.cosine, broadcast(deviation), broadcast(mean)),
          fused(radius * direction.sine, broadcast(deviation), broadcast(mean))};
}

ESTRAIN_FUNCTION Floats drawn_bernoulli(Bits word, Floats p) {
  return unit_below_one(word) < p ? broadcast(1.0f) : broadcast(0.0f);
}

ESTRAIN_FUNCTION Floats drawn_exponential(Bits word, float rate) {
  return (0.0f - logarithm(unit_above_zero(word))) / broadcast(rate);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
