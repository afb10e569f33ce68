#pragma once
// Arc tangent, at most 1.9 ulp off, arc sine and arc cosine, at most 0.7 (measured by the tests). The polynomials are
// minimax polynomials in z = t^2: atan(t) = t + t z a(z) for |t| <= tan(pi / 8), asin(t) = t + t z s(z) for |t| <= 1/2.
//
// atan(x), with a = |x|: t = a up to tan(pi / 8); (a - 1) / (a + 1), around pi / 4, up to tan(3 pi / 8); -1 / a, around
// pi / 2, above. asin(x) and acos(x) above 1/2: t = sqrt((1 - a) / 2), since acos(a) = 2 asin(t). The parts of pi that
// do not fit a float are added first. Outside of [-1, 1] the square root gives NaN.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

ESTRAIN_FUNCTION Floats arc_tangent(Floats x) {
  constexpr float terms[] = {-0.333333164f, 0.199984893f, -0.142438382f, 0.105959147f, -0.0608322099f};
  const Floats a = absolute(x), zero = broadcast(0.0f), one = broadcast(1.0f);
  const auto is_small = a <= broadcast(0.414213568f), is_middle = a <= broadcast(2.41421366f);
  const Floats above = is_small ? a : (is_middle ? a - 1.0f : broadcast(-1.0f));
  const Floats below = is_small ? one : (is_middle ? a + 1.0f : a);
  const Floats t = above / below, z = t * t;
  const Floats start = is_small ? zero : (is_middle ? broadcast(0.785398185f) : broadcast(1.57079637f));
  const Floats start_low = is_small ? zero : (is_middle ? broadcast(-2.18556941e-08f) : broadcast(-4.37113883e-08f));
  return with_sign(start + (t + fused(t * z, polynomial(z, terms), start_low)), x);
}

// asin(t) - t for 0 <= t <= 1/2.
ESTRAIN_FUNCTION Floats arc_sine_beyond(Floats t) {
  constexpr float terms[] = {0.166666597f, 0.0750051066f, 0.0445157178f, 0.0318176188f, 0.0144025814f, 0.0375652388f};
  const Floats z = t * t;
  return t * z * polynomial(z, terms);
}

// The square root of (1 - a) / 2, and the part lost by rounding.
struct HalfChord {
  Floats root, low;
};
ESTRAIN_FUNCTION HalfChord half_chord(Floats a) {
  const Floats square = (1.0f - a) * 0.5f, root = square_root(square);  // 1 - a is exact
  const Floats low = fused(negated(root), root, square) / (root + root);
  return {root, square == broadcast(0.0f) ? square : low};
}

ESTRAIN_FUNCTION Floats arc_sine(Floats x) {
  const Floats a = absolute(x);
  const HalfChord chord = half_chord(a);
  const auto is_near = a <= broadcast(0.5f);
  const Floats t = is_near ? a : chord.root, beyond = arc_sine_beyond(t);
  const Floats rest = broadcast(-4.37113883e-08f) - 2.0f * (beyond + chord.low);
  const Floats quarter = broadcast(1.57079637f), twice = t + t, high = quarter - twice, lost = (quarter - high) - twice;
  return with_sign(is_near ? a + beyond : high + (lost + rest), x);
}

ESTRAIN_FUNCTION Floats arc_cosine(Floats x) {
  const Floats a = absolute(x);
  const HalfChord chord = half_chord(a);
  const auto is_near = a <= broadcast(0.5f), is_negative = x < broadcast(0.0f);
  const Floats t = is_near ? a : chord.root, beyond = arc_sine_beyond(t);
  // Near 0: pi / 2 - asin(x).
  const Floats signed_t = is_negative ? negated(t) : t, signed_beyond = is_negative ? negated(beyond) : beyond;
  const Floats quarter = broadcast(1.57079637f), high = quarter - signed_t, lost = (quarter - high) - signed_t;
  const Floats near = high + (lost + (broadcast(-4.37113883e-08f) - signed_beyond));
  // Far from it: 2 asin(t), or pi - 2 asin(t).
  const Floats twice = t + t, rest = 2.0f * (beyond + chord.low);
  const Floats half = broadcast(3.14159274f), low = half - twice, lost_of_half = (half - low) - twice;
  const Floats far = is_negative ? low + (lost_of_half + (broadcast(-8.74227766e-08f) - rest)) : twice + rest;
  return is_near ? near : far;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
