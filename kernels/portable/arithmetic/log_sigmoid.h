#pragma once
#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/arithmetic/log.h"

namespace estrain::kernels::ESTRAIN_ISA {

// The logarithm of sigmoid(x): min(x, 0) - log1p(exp(-|x|)).
ESTRAIN_FUNCTION Floats log_sigmoid(Floats x) {
  return lesser(broadcast(0.0f), x) - logarithm_plus_one(exponential_to_89(negated(absolute(x))));
}

}  // namespace estrain::kernels::ESTRAIN_ISA
