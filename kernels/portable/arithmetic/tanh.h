#pragma once
// tanh(x) = n / d with n = e^2|x| - 1, d = e^2|x| + 1, both as a float and a small remainder (exp.h), and the sign of
// x. The quotient q = n * (1 / d) is corrected by its remainder n - q d. At most 0.56 ulp off (measured by the tests).

#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::ESTRAIN_ISA {

ESTRAIN_FUNCTION Floats hyperbolic_tangent(Floats x) {
  const Floats a = absolute(x), bounded = lesser(broadcast(8.49f), a);  // tanh(8.49) rounds to 1 - 2^-24
  Growth g = growth(bounded + bounded);
  const Floats w = g.high + g.low;
  g.low = (g.high - w) + g.low;
  g.high = w;
  const Floats t = power_of_two(g.k, 0), below = t - 1.0f, above = t + 1.0f;
  const Floats n = fused(t, g.high, below), n_rest = fused(t, g.low, fused(t, g.high, below - n));
  const Floats d = fused(t, g.high, above);
  const Floats d_rest = fused(t, g.low, fused(t, g.high, above - d) + ((t - above) + 1.0f));
  const Floats inverse = 1.0f / d, q = n * inverse;
  const Floats remainder = fused(negated(q), d, n) + fused(negated(q), d_rest, n_rest);
  const Floats quotient = fused(remainder, inverse, q);
  return with_sign(a > broadcast(9.01091290f) ? broadcast(1.0f) : quotient, x);  // tanh = 1 - 2^-25
}

}  // namespace estrain::kernels::ESTRAIN_ISA
