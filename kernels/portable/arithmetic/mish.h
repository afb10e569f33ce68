#pragma once
// x tanh(log(1 + e^x)) (D. Misra, "Mish"). With e = e^x the tangent is n / (n + 2), n = e (e + 2): no tanh and no log.
// Above 20 the tangent is 1, so e stops at x = 20 and nothing overflows.

#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::ESTRAIN_ISA {

ESTRAIN_FUNCTION Floats mish_exponential(Floats x) { return exponential_to_89(lesser(broadcast(20.0f), x)); }

ESTRAIN_FUNCTION Floats mish(Floats x) {
  const Floats e = mish_exponential(x), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}

ESTRAIN_FUNCTION Floats mish_slope(Floats x) {
  const Floats e = mish_exponential(x), n = e * (e + 2.0f), d = n + 2.0f;
  return fused(x, 4.0f * e * (e + 1.0f) / d / d, n / d);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
