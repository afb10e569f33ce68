#pragma once
// Sine and cosine, about 1 ulp off: x = quadrant * pi / 2 + r with |r| <= pi / 4, then minimax polynomials in r^2.
//
// Up to |x| = 2^17 pi / 2 is subtracted in three parts with fused operations; above, x times 2 / pi is taken modulo 4
// in integers (M. Payne, R. Hanek, "Radian reduction for trigonometric functions"). NaN for infinities.

#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

struct ReducedAngle {
  Floats r;
  Integers quadrant;  // its two lowest bits count
};

ESTRAIN_FUNCTION ReducedAngle reduced_angle_small(Floats x) {
  const Floats shifted = fused(x, broadcast(0.636619747f), broadcast(12582912.0f));
  const Floats k = shifted - 12582912.0f;
  Floats r = fused(k, broadcast(-1.57079637f), x);
  r = fused(k, broadcast(4.37113883e-08f), r);
  return {fused(k, broadcast(1.71512451e-15f), r), integers_of(shifted)};
}

// A quarter turn's share of |x|, 2^17 <= |x| < infinity: quadrant and a fraction in [-1/2, 1/2) as high + low.
struct QuarterTurns {
  float high, low;
  int32_t quadrant;
};
ESTRAIN_FUNCTION QuarterTurns quarter_turns(uint32_t word) {
  // 32 zeros and the first 192 bits of 2 / pi.
  const uint32_t two_over_pi[7] = {0, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u};
  const uint32_t mantissa = (word & 0x7FFFFF) | 0x800000;
  const uint32_t offset = ((word >> 23) & 0xFF) - 120;  // bits that only add multiples of 4 quarter turns
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

// The lanes of `small` where |x| > 2^17, by way of memory.
static inline ReducedAngle reduced_angle_large(Floats x, ReducedAngle small) {
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
  const Floats rest = fused(high, broadcast(-4.37113883e-08f), low * 1.57079637f);
  const Floats r = fused(high, broadcast(1.57079637f), rest);
  const Floats size = absolute(x);
  Floats chosen = size > broadcast(131072.0f) ? r : small.r;
  chosen = size == broadcast(__builtin_inff()) ? broadcast(__builtin_nanf("")) : chosen;
  return {chosen, quadrant};
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
// Of quadrant * pi / 2 + r.
ESTRAIN_FUNCTION SineAndCosine sine_and_cosine(Floats r, Integers quadrant) {
  constexpr float sine_terms[] = {-0.166666552f, 0.00833217334f, -0.000195166591f};
  constexpr float cosine_terms[] = {0.0416666456f, -0.00138873619f, 2.44377406e-05f};
  const Floats square = r * r;
  const Floats s = fused(square * r, polynomial(square, sine_terms), r);
  const Floats c =
      fused(square * square, polynomial(square, cosine_terms), fused(square, broadcast(-0.5f), broadcast(1.0f)));
  const Integers odd = quadrant & 1, sine_sign = (quadrant & 2) << 30, cosine_sign = ((quadrant + 1) & 2) << 30;
  const Floats sine = odd == 0 ? s : c, cosine = odd == 0 ? c : s;
  return {floats_of(integers_of(sine) ^ sine_sign), floats_of(integers_of(cosine) ^ cosine_sign)};
}

ESTRAIN_FUNCTION Floats sine(Floats x) {
  const ReducedAngle angle = reduced_angle(x);
  return x == broadcast(0.0f) ? x : sine_and_cosine(angle.r, angle.quadrant).sine;
}
ESTRAIN_FUNCTION Floats cosine(Floats x) {
  const ReducedAngle angle = reduced_angle(x);
  return sine_and_cosine(angle.r, angle.quadrant).cosine;
}

}  // namespace estrain::kernels::ESTRAIN_ISA
