#pragma once
// The formulas of elementwise.h: the result for one element of each input. A formula is constructed from the numbers of
// a call. UnaryFormula<f> and UnaryBackwardFormula<f> are the formulas of function f: a function without a formula does
// not compile.
// table_of() makes the table of the loops over all formulas, for the instruction sets of CPUs and for GPUs.

#include <utility>

#include "kernels/portable/arithmetic/activations.h"
#include "kernels/portable/arithmetic/erf.h"
#include "kernels/portable/arithmetic/hyperbolic.h"
#include "kernels/portable/arithmetic/log.h"
#include "kernels/portable/arithmetic/power.h"
#include "kernels/portable/arithmetic/sigmoid.h"
#include "kernels/portable/arithmetic/trigonometry.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/loops/elementwise.h"

namespace estrain::kernels::ESTRAIN_ISA {

template <portable::Unary function>
struct UnaryFormula;
#define ESTRAIN_FORMULA(function, expression)                               \
  template <>                                                               \
  struct UnaryFormula<portable::Unary::function> {                          \
    ESTRAIN_MEMBER explicit UnaryFormula(const float*) {}                   \
    ESTRAIN_MEMBER Floats operator()(Floats x) const { return expression; } \
  }
ESTRAIN_FORMULA(exp, exponential(x));
ESTRAIN_FORMULA(log, logarithm(x));
ESTRAIN_FORMULA(log1p, logarithm_plus_one(x));
ESTRAIN_FORMULA(expm1, exponential_minus_one(x));
ESTRAIN_FORMULA(sqrt, square_root(x));
ESTRAIN_FORMULA(rsqrt, 1.0f / square_root(x));
ESTRAIN_FORMULA(reciprocal, 1.0f / x);
ESTRAIN_FORMULA(tanh, hyperbolic_tangent(x));
ESTRAIN_FORMULA(sigmoid, sigmoid(x));
ESTRAIN_FORMULA(silu, silu(x));
ESTRAIN_FORMULA(gelu, gelu(x));
ESTRAIN_FORMULA(gelu_tanh, gelu_tanh(x));
ESTRAIN_FORMULA(erf, error_function(x));
ESTRAIN_FORMULA(sin, sine(x));
ESTRAIN_FORMULA(cos, cosine(x));
ESTRAIN_FORMULA(square, x* x);
ESTRAIN_FORMULA(cube, x* x* x);
ESTRAIN_FORMULA(inverse_square, 1.0f / (x * x));
ESTRAIN_FORMULA(log2, logarithm_base_two(x));
ESTRAIN_FORMULA(log_sigmoid, log_sigmoid(x));
ESTRAIN_FORMULA(hardsigmoid, hard_ramp(x) / 6.0f);
ESTRAIN_FORMULA(hardswish, x* hard_ramp(x) / 6.0f);
ESTRAIN_FORMULA(mish, mish(x));
ESTRAIN_FORMULA(tan, tangent(x));
ESTRAIN_FORMULA(asin, arc_sine(x));
ESTRAIN_FORMULA(acos, arc_cosine(x));
ESTRAIN_FORMULA(atan, arc_tangent(x));
ESTRAIN_FORMULA(sinh, hyperbolic_sine(x));
ESTRAIN_FORMULA(cosh, hyperbolic_cosine(x));
ESTRAIN_FORMULA(asinh, inverse_hyperbolic_sine(x));
ESTRAIN_FORMULA(acosh, inverse_hyperbolic_cosine(x));
ESTRAIN_FORMULA(atanh, inverse_hyperbolic_tangent(x));
#undef ESTRAIN_FORMULA

template <portable::UnaryBackward function>
struct UnaryBackwardFormula;
#define ESTRAIN_FORMULA(function, expression)                                         \
  template <>                                                                         \
  struct UnaryBackwardFormula<portable::UnaryBackward::function> {                    \
    ESTRAIN_MEMBER explicit UnaryBackwardFormula(const float*) {}                     \
    ESTRAIN_MEMBER Floats operator()(Floats g, Floats x) const { return expression; } \
  }
ESTRAIN_FORMULA(tanh, g* fused(negated(x), x, broadcast(1.0f)));
ESTRAIN_FORMULA(sigmoid, g*(x*(1.0f - x)));
ESTRAIN_FORMULA(silu, g* silu_slope(x));
ESTRAIN_FORMULA(gelu, g* gelu_slope(x));
ESTRAIN_FORMULA(gelu_tanh, g* gelu_tanh_slope(x));
ESTRAIN_FORMULA(log_sigmoid, g* sigmoid(negated(x)));
ESTRAIN_FORMULA(hardsigmoid, hardsigmoid_gradient(g, x));
ESTRAIN_FORMULA(hardswish, hardswish_gradient(g, x));
ESTRAIN_FORMULA(mish, g* mish_slope(x));
#undef ESTRAIN_FORMULA

// Formulas with numbers, held in vectors.
struct WithNumbers {
  Floats k0, k1, k2, k3;
  ESTRAIN_MEMBER explicit WithNumbers(const float* numbers)
      : k0(broadcast(numbers[0])), k1(broadcast(numbers[1])), k2(broadcast(numbers[2])), k3(broadcast(numbers[3])) {}
};

// k0 = beta, k1 = threshold.
struct SoftplusFormula : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats x) const {
    const Floats scaled = x * k0;
    return scaled > k1 ? x : logarithm_plus_one(exponential(scaled)) / k0;
  }
};
struct SoftplusBackward : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats g, Floats x) const {
    const Floats scaled = x * k0;
    return scaled > k1 ? g : g * sigmoid(scaled);
  }
};

// k0 = scale, k1 = input_scale, k2 = alpha * scale, k3 = input_scale * k2.
struct EluFormula : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats x) const {
    return x > broadcast(0.0f) ? x * k0 : exponential_minus_one(x * k1) * k2;
  }
};
struct EluBackwardOfResult : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats g, Floats result) const {
    return result > broadcast(0.0f) ? g * k0 : g * (k1 * (result + k2));
  }
};
struct EluBackwardOfInput : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats g, Floats x) const {
    return x > broadcast(0.0f) ? g * k0 : g * (k3 * exponential(x * k1));
  }
};

struct AddScaled : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats a, Floats b) const { return fused(k0, b, a); }
};
struct AddScaledNumber : WithNumbers {  // k1 = the number
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats a) const { return fused(k0, k1, a); }
};
struct AddProduct : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats a, Floats b, Floats c) const { return fused(k0 * b, c, a); }
};
struct AddQuotient : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats a, Floats b, Floats c) const { return a + k0 * b / c; }
};
struct LerpFormula : WithNumbers {
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats a, Floats b, Floats weight) const {
    const Floats step = b - a;
    return absolute(weight) < broadcast(0.5f) ? fused(weight, step, a) : fused(weight - 1.0f, step, b);
  }
  ESTRAIN_MEMBER Floats operator()(Floats a, Floats b) const { return (*this)(a, b, k0); }
};

struct Power : WithNumbers {  // k0 = the exponent
  using WithNumbers::WithNumbers;
  ESTRAIN_MEMBER Floats operator()(Floats x, Floats exponent) const { return power(x, exponent); }
  ESTRAIN_MEMBER Floats operator()(Floats x) const { return power(x, k0); }
};

// Loop<Formula, inputs>::run applies a formula of so many input arrays to every element.
template <template <typename, int> class Loop, typename Formula, int inputs>
static constexpr Elementwise loop_of = Loop<Formula, inputs>::run;
template <template <typename, int> class Loop, int... functions, int... backward_functions>
static constexpr ElementwiseLoops table_of(std::integer_sequence<int, functions...>,
                                           std::integer_sequence<int, backward_functions...>) {
  using portable::Unary, portable::UnaryBackward;
  return {.unary = {loop_of<Loop, UnaryFormula<static_cast<Unary>(functions)>, 1>...},
          .unary_backward = {loop_of<Loop, UnaryBackwardFormula<static_cast<UnaryBackward>(backward_functions)>, 2>...},
          .softplus = loop_of<Loop, SoftplusFormula, 1>,
          .softplus_backward = loop_of<Loop, SoftplusBackward, 2>,
          .elu = loop_of<Loop, EluFormula, 1>,
          .elu_backward_of_result = loop_of<Loop, EluBackwardOfResult, 2>,
          .elu_backward_of_input = loop_of<Loop, EluBackwardOfInput, 2>,
          .add_scaled = loop_of<Loop, AddScaled, 2>,
          .add_scaled_number = loop_of<Loop, AddScaledNumber, 1>,
          .add_product = loop_of<Loop, AddProduct, 3>,
          .add_quotient = loop_of<Loop, AddQuotient, 3>,
          .lerp = loop_of<Loop, LerpFormula, 2>,
          .lerp_by_weights = loop_of<Loop, LerpFormula, 3>,
          .power = loop_of<Loop, Power, 1>,
          .power_by_exponents = loop_of<Loop, Power, 2>};
}
template <template <typename, int> class Loop>
static constexpr ElementwiseLoops table_of() {
  return table_of<Loop>(std::make_integer_sequence<int, static_cast<int>(portable::Unary::num_functions)>{},
                        std::make_integer_sequence<int, static_cast<int>(portable::UnaryBackward::num_functions)>{});
}

}  // namespace estrain::kernels::ESTRAIN_ISA
