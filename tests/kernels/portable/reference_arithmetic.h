#pragma once
// The formulas of kernels/portable/arithmetic on one float with std::fma and std::sqrt; the vectors must equal them.

#include <cmath>

#define ESTRAIN_ISA scalar
#define ESTRAIN_VECTORS "tests/kernels/portable/vector_scalar.h"
#include "kernels/portable/arithmetic/activations.h"
#include "kernels/portable/arithmetic/erf.h"
#include "kernels/portable/arithmetic/hyperbolic.h"
#include "kernels/portable/arithmetic/log.h"
#include "kernels/portable/arithmetic/power.h"
#include "kernels/portable/arithmetic/sigmoid.h"
#include "kernels/portable/arithmetic/trigonometry.h"
