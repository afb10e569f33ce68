#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

// Up to three input arrays and four numbers; their meaning depends on the function.
struct ElementwiseArguments {
  float* out;
  const float* inputs[3];
  float numbers[4];
  int64_t n;
};
using Elementwise = void (*)(const ElementwiseArguments& arguments, const Execution& execution);

struct ElementwiseLoops {
  // In the order of portable::Unary.
  Elementwise unary[32];
  // In the order of portable::UnaryBackward.
  Elementwise unary_backward[9];
  Elementwise softplus, softplus_backward, elu, elu_backward_of_result, elu_backward_of_input;
  Elementwise add_scaled, add_scaled_number, add_product, add_quotient, lerp, lerp_by_weights;
  Elementwise power, power_by_exponents;
};
ESTRAIN_PER_ISA(ElementwiseLoops, elementwise_loops);

}  // namespace estrain::kernels
