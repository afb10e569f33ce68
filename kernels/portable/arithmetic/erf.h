#pragma once
// The normal distribution and the error function.
//
// Of the normal distribution with a = |x| (16 at most: beyond it all is 0 or 1): bell = e^(-a^2 / 2) and tail = bell *
// R((a - 1.5) / (a + 3)), R a polynomial of degree 9 with minimax coefficients: the probability beyond a, relatively
// off by about 2^-24 a^2 / 2 and a few ulp. cumulative(x) = tail for x < 0, 1 - tail otherwise. gelu(x) = x *
// cumulative(x); its slope is cumulative(x) + x * density(x), density = bell / sqrt(2 pi).
//
// erf(x): x + x q(x^2) up to 0.9, above 1 - 2 e^(-x^2) R(...) of a = sqrt 2 |x| with the sign of x, the rounding of x^2
// made good.

#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::ESTRAIN_ISA {

// e^(-a^2) for a >= 0.
ESTRAIN_FUNCTION Floats bell(Floats a) {
  const Floats square = a * a;
  const Floats rest = fused(a, a, negated(square));
  const Floats near = exponential_to_89(negated(square));
  return fused(near, negated(rest), near);
}

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

ESTRAIN_FUNCTION Floats error_function(Floats x) {
  constexpr float q[] = {0.128379166f,   -0.376126349f,    0.112837166f,   -0.0268605575f,
                         0.00520395767f, -0.000817660417f, 8.51674413e-05f};
  const Floats size = absolute(x);
  const Floats near = fused(x, polynomial(x * x, q), x);
  const Floats a = lesser(broadcast(11.0f), size);
  const Floats twice = bell(a) * 2.0f;
  const Floats far = fused(negated(twice), tail_over_bell(a * 1.41421354f), broadcast(1.0f));
  return size < broadcast(0.9f) ? near : with_sign(far, x);
}

}  // namespace estrain::kernels::ESTRAIN_ISA
