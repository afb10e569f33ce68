#pragma once
// tanh(x): x + x^3 p(x^2) up to 0.75, p of degree 5 with minimax coefficients; above, 1 - 2 / (e^2|x| + 1), the sum in
// one rounding (exp.h), with the sign of x. About 1 ulp off (measured by the tests).

#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::ESTRAIN_ISA {

ESTRAIN_FUNCTION Floats hyperbolic_tangent(Floats x) {
  constexpr float p[] = {-0.333333164f, 0.133326948f, -0.0538927317f, 0.0214520544f, -0.00765728578f, 0.00173695316f};
  const Floats a = absolute(x), square = a * a;
  const Floats near = fused(square * a, polynomial(square, p), a);
  const Floats bounded = lesser(broadcast(10.0f), a);  // tanh(10) rounds to 1
  const ReducedExponent reduced = reduced_exponent(bounded + bounded);
  const Floats r = reduced.r, w = fused(r * r, exponential_tail(r), r);
  const Floats power = floats_of((integers_of(reduced.k + 12582912.0f) - (0x4B400000 - 127)) << 23);
  const Floats far = 1.0f - 2.0f / fused(power, w, power + 1.0f);
  return with_sign(a < broadcast(0.75f) ? near : far, x);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
