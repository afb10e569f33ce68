#pragma once
// The normal distribution and the error function.
//
// Normal distribution, with a = |x| (at most 16: beyond it all is 0 or 1): bell = e^(-a^2 / 2) and tail = bell * R((a -
// 1.5) / (a + 3)), with R a minimax polynomial of degree 9. tail is the probability beyond a; its relative error is
// about 2^-24 a^2 / 2 and a few ulp. cumulative(x) = tail for x < 0, 1 - tail otherwise. gelu(x) = x * cumulative(x);
// its slope is cumulative(x) + x * density(x), with density = bell / sqrt(2 pi).
//
// erf(x): x + x q(x^2) up to 1.04; above, 1 - 2 e^(-x^2) R(...) for a = sqrt 2 |x|, with the sign of x. The rounding
// errors of x^2, of 2 e^(-x^2) R and of its difference from 1 are compensated. At most 0.77 ulp off (by the tests).

#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::ESTRAIN_ISA {

// The probability beyond a, divided by e^(-a^2 / 2).
ESTRAIN_FUNCTION Floats tail_over_bell(Floats a) {
  constexpr float tail[] = {0.20578067f,   -0.406220704f,    0.306313425f,    -0.119942665f,    0.000518988993f,
                            0.0165396277f, -1.07880969e-05f, -0.00324684917f, -0.000416462484f, 0.000689181616f};
  return polynomial((a - 1.5f) / (a + 3.0f), tail);
}

struct NormalDistribution {
  Floats cumulative, bell;
};
ESTRAIN_FUNCTION NormalDistribution normal_distribution(Floats x) {
  const Floats size = absolute(x);
  const Floats a = lesser(broadcast(16.0f), size);
  const Floats height = exponential_to_89(a * a * -0.5f);
  const Floats tail = height * tail_over_bell(a);
  return {x < broadcast(0.0f) ? tail : 1.0f - tail, height};
}

ESTRAIN_FUNCTION Floats gelu(Floats x) { return x * normal_distribution(x).cumulative; }

ESTRAIN_FUNCTION Floats gelu_slope(Floats x) {
  const NormalDistribution normal = normal_distribution(x);
  return fused(x, normal.bell * 0.398942292f, normal.cumulative);
}

// For |x| <= 1.04: q(z + rest) is q1 z + (q0 + z^2 (q2 + ...)) and rest times its slope.
ESTRAIN_FUNCTION Floats error_function_near(Floats x, Floats z, Floats rest) {
  constexpr float q[] = {0.112836979f,     -0.0268612392f,  0.00521101337f,
                         -0.000835990533f, 0.000104953251f, -7.76965862e-06f};
  const Floats slope = fused(z, fused(z, broadcast(-0.075f), broadcast(0.224f)), broadcast(-0.376126319f));
  const Floats others = fused(z * z, polynomial(z, q), broadcast(0.128379166f));
  const Floats linear = z * -0.376126319f, factor = linear + others;
  const Floats shadow = factor - linear, sum_rest = (linear - (factor - shadow)) + (others - shadow);
  const Floats linear_rest = fused(z, broadcast(-0.376126319f), negated(linear));
  const Floats factor_lost = fused(rest, slope, linear_rest + sum_rest);
  const Floats sum = fused(x, factor, x);
  return sum + fused(x, factor_lost, fused(x, factor, x - sum));
}

// For 1.04 <= a <= 11: e^(-z - rest) = e^-z - rest e^-z.
ESTRAIN_FUNCTION Floats error_function_far(Floats a, Floats z, Floats rest) {
  const Floats bell = exponential_to_89(negated(z)) * 2.0f, ratio = tail_over_bell(a * 1.41421354f);
  const Floats tail = bell * ratio, tail_rest = fused(bell, ratio, negated(tail));
  const Floats result = 1.0f - tail, lost = (1.0f - result) - tail;
  return result + (fused(tail, rest, lost) - tail_rest);
}

ESTRAIN_FUNCTION Floats error_function(Floats x) {
  const Floats size = absolute(x), a = lesser(broadcast(11.0f), size);
  const Floats square = a * a, rest = fused(a, a, negated(square));
  const Floats near = error_function_near(a, square, rest), far = error_function_far(a, square, rest);
  return with_sign(size < broadcast(1.04f) ? near : far, x);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
