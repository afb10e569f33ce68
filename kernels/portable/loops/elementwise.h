#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"
#include "kernels/portable/elementwise.h"

namespace estrain::kernels {

// Up to three input arrays and four numbers, with a meaning that depends on the function.
struct ElementwiseArguments {
  float* out;
  const float* inputs[3];
  float numbers[4];
  int64_t n;
};
using Elementwise = void (*)(const ElementwiseArguments& arguments, const Execution& execution);

struct ElementwiseLoops {
  Elementwise unary[static_cast<int>(portable::Unary::num_functions)];  // by the number of the function
  Elementwise unary_backward[static_cast<int>(portable::UnaryBackward::num_functions)];  // likewise
  Elementwise softplus, softplus_backward, elu, elu_backward_of_result, elu_backward_of_input;
  Elementwise add_scaled, add_scaled_number, add_product, add_quotient, lerp, lerp_by_weights;
  Elementwise power, power_by_exponents;
};
ESTRAIN_PER_ISA(ElementwiseLoops, elementwise_loops);

}  // namespace estrain::kernels
