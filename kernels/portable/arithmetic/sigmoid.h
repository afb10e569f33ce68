#pragma once
// sigmoid(x) = n / d with n = c and d = c (1 + e^-x). The factor c keeps d finite: 1, or 2^-64 for x < -64; below -110,
// n is 0. With e^-x = 2^k (1 + w) (exp.h), d = c 2^k w + (c 2^k + c), the last operation fused. Gradual underflow.

#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::ESTRAIN_ISA {

struct SigmoidParts {
  Floats n, d;
};
ESTRAIN_FUNCTION SigmoidParts sigmoid_parts(Floats x) {
  const Floats bounded =
      greater(broadcast(-30.0f), lesser(broadcast(110.0f), negated(x)));  // e^-30 is negligible next to 1
  const ScaledGrowth growth = rounded_growth(bounded);
  const auto small = x < broadcast(-64.0f);
  const Floats c = small ? broadcast(5.42101086e-20f) : broadcast(1.0f);
  const Floats k = small ? growth.k - 64.0f : growth.k;
  const Floats power = power_of_two(k, 0);
  return {x < broadcast(-110.0f) ? broadcast(0.0f) : c, fused(power, growth.w, power + c)};
}

ESTRAIN_FUNCTION Floats sigmoid(Floats x) {
  const SigmoidParts parts = sigmoid_parts(x);
  return parts.n / parts.d;
}

// x * sigmoid(y), with the division last.
ESTRAIN_FUNCTION Floats times_sigmoid(Floats x, Floats y) {
  const SigmoidParts parts = sigmoid_parts(y);
  return x * parts.n / parts.d;
}

ESTRAIN_FUNCTION Floats silu(Floats x) { return times_sigmoid(x, x); }

// s * (1 + x * (1 - s)), s = sigmoid(x).
ESTRAIN_FUNCTION Floats silu_slope(Floats x) {
  const Floats s = sigmoid(x);
  return s * fused(x, 1.0f - s, broadcast(1.0f));
}

// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u), 2 u = x (c0 + c1 x^2), c0 = 2 sqrt(2 / pi), c1 = 0.044715 c0.
ESTRAIN_FUNCTION Floats gelu_tanh(Floats x) {
  const Floats slope = fused(x * x, broadcast(0.0713548139f), broadcast(1.59576917f));
  return times_sigmoid(x, x * slope);
}

// s + x s (1 - s) (c0 + 3 c1 x^2), s = sigmoid(2 u).
ESTRAIN_FUNCTION Floats gelu_tanh_slope(Floats x) {
  const Floats square = x * x;
  const Floats s = sigmoid(x * fused(square, broadcast(0.0713548139f), broadcast(1.59576917f)));
  const Floats growth = fused(square, broadcast(0.214064449f), broadcast(1.59576917f));
  return fused(x * (s * (1.0f - s)), growth, s);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
