#pragma once
// Activations: the straight-lined stand-ins for sigmoid and swish (A. Howard et al., "Searching for MobileNetV3"),
// mish, and the logarithm of sigmoid.
//
// mish(x) = x tanh(log(1 + e^x)) (D. Misra, "Mish"). With e = e^x the tangent is n / (n + 2), n = e (e + 2): no tanh
// and no log. Above 20 the tangent is 1, so e stops at x = 20 and nothing overflows.

#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"
#include "kernels/portable/arithmetic/value.h"

namespace estrain::kernels::ESTRAIN_ISA {

// min(max(x + 3, 0), 6); NaN stays.
ESTRAIN_FUNCTION Floats hard_ramp(Floats x) { return lesser(broadcast(6.0f), greater(broadcast(0.0f), x + 3.0f)); }

ESTRAIN_FUNCTION Floats hardsigmoid_gradient(Floats g, Floats x) {
  return absolute(x) < broadcast(3.0f) ? g / 6.0f : broadcast(0.0f);
}

ESTRAIN_FUNCTION Floats hardswish_gradient(Floats g, Floats x) {
  const Floats sloped = x < broadcast(3.0f) ? g * (x / 3.0f + 0.5f) : g;
  return x <= broadcast(-3.0f) ? broadcast(0.0f) : sloped;
}

ESTRAIN_FUNCTION Floats mish_exponential(Floats x) { return exponential_to_89(lesser(broadcast(20.0f), x)); }

ESTRAIN_FUNCTION Floats mish(Floats x) {
  const Floats e = mish_exponential(x), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}

ESTRAIN_FUNCTION Floats mish_slope(Floats x) {
  const Floats e = mish_exponential(x), n = e * (e + 2.0f), d = n + 2.0f;
  return fused(x, 4.0f * e * (e + 1.0f) / d / d, n / d);
}

// The logarithm of sigmoid(x): min(x, 0) - log1p(exp(-|x|)).
ESTRAIN_FUNCTION Floats log_sigmoid(Floats x) {
  return lesser(broadcast(0.0f), x) - logarithm_plus_one(exponential_to_89(negated(absolute(x))));
}

}  // namespace estrain::kernels::ESTRAIN_ISA
