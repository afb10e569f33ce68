#pragma once
// Sine and cosine, at most 0.6 ulp off, tangent, at most 2 (tested): x = quadrant * pi / 2 + r + low, |r| <= pi / 4 and
// low the rounding error of r; then minimax polynomials in r^2. The rounding error of 1 - r^2 / 2 is kept.
//
// Up to |x| = 2^17, pi / 2 is subtracted in three parts, with exact sums in two floats. Above, x times 2 / pi is
// computed modulo 4 in integers (M. Payne, R. Hanek, "Radian reduction for trigonometric functions"). Infinity: NaN.
//
// Arc tangent, at most 1.9 ulp off, arc sine and arc cosine, at most 0.7 (measured by the tests). The polynomials are
// minimax polynomials in z = t^2: atan(t) = t + t z a(z) for |t| <= tan(pi / 8), asin(t) = t + t z s(z) for |t| <= 1/2.
//
// atan(x), with a = |x|: t = a up to tan(pi / 8); (a - 1) / (a + 1), around pi / 4, up to tan(3 pi / 8); -1 / a, around
// pi / 2, above. asin(x) and acos(x) above 1/2: t = sqrt((1 - a) / 2), since acos(a) = 2 asin(t). The parts of pi that
// do not fit a float are added first. Outside of [-1, 1] the square root gives NaN.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

struct ReducedAngle {
  Floats r, low;
  Integers quadrant;  // only the two lowest bits matter
};

ESTRAIN_FUNCTION ReducedAngle reduced_angle_small(Floats x) {
  const Floats shifted = fused(x, broadcast(0.636619747f), broadcast(12582912.0f));
  const Floats k = shifted - 12582912.0f;
  const Floats first = fused(k, broadcast(-1.57079637f), x);  // exact
  const Floats second = k * 4.37113883e-08f, second_rest = fused(k, broadcast(4.37113883e-08f), negated(second));
  const Floats r = first + second, shadow = r - first;
  const Floats lost = (first - (r - shadow)) + (second - shadow);
  return {r, fused(k, broadcast(1.71512451e-15f), lost + second_rest), integers_of(shifted)};
}

// |x| in quarter turns, for 2^17 <= |x| < infinity: the quadrant, and a fraction in [-1/2, 1/2) as high + low.
struct QuarterTurns {
  float high, low;
  int32_t quadrant;
};
ESTRAIN_FUNCTION QuarterTurns quarter_turns(uint32_t word) {
  // 32 zeros and the first 192 bits of 2 / pi.
  const uint32_t two_over_pi[7] = {0, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u};
  const uint32_t mantissa = (word & 0x7FFFFF) | 0x800000;
  const uint32_t offset = ((word >> 23) & 0xFF) - 120;  // leading bits that only add multiples of 4 quarter turns
  uint32_t window[3] = {0, 0, 0};
  for (uint32_t j = 0; j < 3; ++j) {
    const uint32_t i = offset / 32 + j;
    const uint64_t two = (static_cast<uint64_t>(two_over_pi[i]) << 32) | (i + 1 < 7 ? two_over_pi[i + 1] : 0u);
    window[j] = static_cast<uint32_t>(two << (offset % 32) >> 32);
  }
  const uint64_t low = static_cast<uint64_t>(mantissa) * window[2];
  const uint64_t middle = static_cast<uint64_t>(mantissa) * window[1] + (low >> 32);
  const uint64_t product = (static_cast<uint64_t>(mantissa * window[0]) << 32) + middle;  // 2 + 62 bits
  const uint64_t rounded = product + (1ull << 61);
  const int64_t fraction = static_cast<int64_t>((rounded & 0x3FFFFFFFFFFFFFFFull)) - (1ll << 61);
  const float high = static_cast<float>(fraction);
  const float rest = static_cast<float>(fraction - static_cast<int64_t>(high));
  return {high * 0x1p-62f, rest * 0x1p-62f, static_cast<int32_t>(rounded >> 62)};
}

#ifdef ESTRAIN_ONE_LANE
static constexpr int num_lanes = 1;
#else
static constexpr int num_lanes = width;
#endif

struct Angles {
  float x[num_lanes], high[num_lanes], low[num_lanes];
  int32_t quadrant[num_lanes];
};

// Replaces the lanes of `small` with |x| > 2^17, through memory.
ESTRAIN_LARGE_FUNCTION ReducedAngle reduced_angle_large(Floats x, ReducedAngle small) {
  Angles lanes = {};
  __builtin_memcpy(lanes.x, &x, sizeof x);
  __builtin_memcpy(lanes.quadrant, &small.quadrant, sizeof small.quadrant);
  for (int i = 0; i < num_lanes; ++i) {
    const uint32_t word = __builtin_bit_cast(uint32_t, lanes.x[i]);
    const uint32_t size = word & 0x7FFFFFFF;
    if (size <= 0x48000000 || size >= 0x7F800000) continue;
    const QuarterTurns turns = quarter_turns(word);
    const bool negative = word >> 31;
    lanes.high[i] = negative ? -turns.high : turns.high;
    lanes.low[i] = negative ? -turns.low : turns.low;
    lanes.quadrant[i] = negative ? -turns.quadrant : turns.quadrant;
  }
  Floats high, low;
  Integers quadrant;
  __builtin_memcpy(&high, lanes.high, sizeof high);
  __builtin_memcpy(&low, lanes.low, sizeof low);
  __builtin_memcpy(&quadrant, lanes.quadrant, sizeof quadrant);
  const Floats product = high * 1.57079637f, lost = fused(high, broadcast(1.57079637f), negated(product));
  const Floats rest = fused(high, broadcast(-4.37113883e-08f), low * 1.57079637f) + lost;
  const Floats r = product + rest, r_low = (product - r) + rest;
  const Floats size = absolute(x);
  Floats chosen = size > broadcast(131072.0f) ? r : small.r;
  chosen = size == broadcast(__builtin_inff()) ? broadcast(__builtin_nanf("")) : chosen;
  return {chosen, size > broadcast(131072.0f) ? r_low : small.low, quadrant};
}

ESTRAIN_FUNCTION bool any_above(Floats x, float limit) {
  float lanes[num_lanes];
  __builtin_memcpy(lanes, &x, sizeof x);
  bool any = false;
  for (int i = 0; i < num_lanes; ++i) any |= lanes[i] > limit;
  return any;
}

ESTRAIN_FUNCTION ReducedAngle reduced_angle(Floats x) {
  const ReducedAngle small = reduced_angle_small(x);
  return any_above(absolute(x), 131072.0f) ? reduced_angle_large(x, small) : small;
}

struct SineAndCosine {
  Floats sine, cosine;
};
// The sine and cosine of quadrant * pi / 2 + r + low.
ESTRAIN_FUNCTION SineAndCosine sine_and_cosine(ReducedAngle angle) {
  constexpr float sine_terms[] = {0.0083333794f, -0.000198530484f, 2.83212421e-06f};
  constexpr float cosine_terms[] = {0.0416666456f, -0.00138873048f, 2.44314251e-05f};
  const Floats r = angle.r, low = angle.low, square = r * r, half = square * 0.5f, cube = square * r;
  const Floats square_rest = fused(r, r, negated(square)), cube_rest = fused(square, r, negated(cube));
  const Floats near = 1.0f - half, lost = (1.0f - near) - half;
  const Floats sine_rest = fused(fused(square_rest, r, cube_rest), broadcast(-0.166666672f), low * near);
  const Floats fifth = fused(cube * square, polynomial(square, sine_terms), sine_rest);
  const Floats s = r + fused(cube, broadcast(-0.166666672f), fifth);
  const Floats cosine_rest = lost - fused(r, low, square_rest * 0.5f);
  const Floats c = near + fused(square * square, polynomial(square, cosine_terms), cosine_rest);
  const Integers quadrant = angle.quadrant;
  const Integers odd = quadrant & 1, sine_sign = (quadrant & 2) << 30, cosine_sign = ((quadrant + 1) & 2) << 30;
  const Floats sine = odd == 0 ? s : c, cosine = odd == 0 ? c : s;
  return {floats_of(integers_of(sine) ^ sine_sign), floats_of(integers_of(cosine) ^ cosine_sign)};
}

ESTRAIN_FUNCTION Floats sine(Floats x) {
  const ReducedAngle angle = reduced_angle(x);
  return x == broadcast(0.0f) ? x : sine_and_cosine(angle).sine;
}
ESTRAIN_FUNCTION Floats cosine(Floats x) {
  const ReducedAngle angle = reduced_angle(x);
  return sine_and_cosine(angle).cosine;
}
ESTRAIN_FUNCTION Floats tangent(Floats x) {
  const SineAndCosine direction = sine_and_cosine(reduced_angle(x));
  return x == broadcast(0.0f) ? x : direction.sine / direction.cosine;
}

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
