#pragma once
// The straight-lined stand-ins for sigmoid and swish (A. Howard et al., "Searching for MobileNetV3").

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

}  // namespace estrain::kernels::ESTRAIN_ISA
