#pragma once
// Elementwise functions, forward and backward, over n contiguous floats. `out` may be any of the inputs.
//
// The comment at each name states its exact arithmetic; exp(), log() and so on are those of arithmetic/, fma(a, b, c)
// is a * b + c rounded once, and every other operation is rounded, from left to right. NaN in gives NaN out; infinities
// and denormals follow IEEE arithmetic (nothing is flushed to zero).

#include <stdint.h>

#include "kernels/execution.h"

namespace estrain::kernels::portable {

enum class Unary {
  exp,
  log,
  log1p,
  expm1,
  sqrt,        // IEEE's
  rsqrt,       // 1 / sqrt(x)
  reciprocal,  // 1 / x
  tanh,
  sigmoid,
  silu,       // x * n / d with sigmoid(x) = n / d: arithmetic/sigmoid.h
  gelu,       // x * cumulative(x): arithmetic/erf.h
  gelu_tanh,  // x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), as x * n / d: arithmetic/sigmoid.h
  erf,
  sin,
  cos,
  square,          // x * x                pow 2
  cube,            // (x * x) * x          pow 3
  inverse_square,  // 1 / (x * x)       pow -2
  log2,            // arithmetic/log.h
  log_sigmoid,     // min(x, 0) - log1p(exp(-|x|))
  hardsigmoid,     // m / 6, m = min(max(x + 3, 0), 6)
  hardswish,       // x * m / 6
  mish,            // x * (n / (n + 2)), n = e * (e + 2), e = exp(min(x, 20)): x tanh(log(1 + e^x))
  tan,             // sin(x) / cos(x)
  asin,            // arithmetic/trigonometry.h
  acos,
  atan,
  sinh,  // arithmetic/hyperbolic.h
  cosh,
  asinh,
  acosh,
  atanh,
  num_functions  // not a function
};
void unary(Unary function, float* out, const float* x, int64_t n, const Execution& execution);

// Gradients with respect to x, from `gradient` (of the result) and the value saved by the forward function.
enum class UnaryBackward {
  tanh,          // saved = tanh(x):    gradient * fma(-saved, saved, 1)
  sigmoid,       // saved = sigmoid(x): gradient * (saved * (1 - saved))
  silu,          // saved = x: gradient * (s * fma(x, 1 - s, 1)), s = sigmoid(x)
  gelu,          // saved = x: gradient * fma(x, density(x), cumulative(x)): arithmetic/erf.h
  gelu_tanh,     // saved = x: gradient * fma(x * (s * (1 - s)), v, s), s = sigmoid(2 u), v = 2 u': arithmetic/sigmoid.h
  log_sigmoid,   // saved = x: gradient * sigmoid(-x)
  hardsigmoid,   // saved = x: gradient / 6 for -3 < x < 3, else +0
  hardswish,     // saved = x: +0 for x <= -3; gradient * (x / 3 + 0.5) for x < 3; else gradient
  mish,          // saved = x: gradient * fma(x, 4 * e * (e + 1) / d / d, n / d), e and n as above, d = n + 2
  num_functions  // not a function
};
void unary_backward(UnaryBackward function, float* out, const float* gradient, const float* saved, int64_t n,
                    const Execution& execution);

struct Softplus {
  float beta = 1;
  float threshold = 20;  // x * beta above it: the function is x
};
// log1p(exp(x * beta)) / beta.
void softplus(float* out, const float* x, int64_t n, const Softplus& options, const Execution& execution);
// gradient * sigmoid(x * beta); above the threshold: gradient.
void softplus_backward(float* out, const float* gradient, const float* x, int64_t n, const Softplus& options,
                       const Execution& execution);

struct Elu {
  float alpha = 1, scale = 1, input_scale = 1;
  bool saved_is_result = false;  // backward: `saved` is the result, not the input
};
// x > 0: x * scale; else expm1(x * input_scale) * (alpha * scale).
void elu(float* out, const float* x, int64_t n, const Elu& options, const Execution& execution);
// saved > 0: gradient * scale; else gradient * (input_scale * (result + alpha * scale)) if the result was saved,
// gradient * ((input_scale * (alpha * scale)) * exp(x * input_scale)) if the input was.
void elu_backward(float* out, const float* gradient, const float* saved, int64_t n, const Elu& options,
                  const Execution& execution);

// fma(alpha, b, a)
void add_scaled(float* out, const float* a, const float* b, float alpha, int64_t n, const Execution& execution);
// fma(alpha, b, a) with one number b.
void add_scaled_number(float* out, const float* a, float b, float alpha, int64_t n, const Execution& execution);
// fma(value * b, c, a)
void add_product(float* out, const float* a, const float* b, const float* c, float value, int64_t n,
                 const Execution& execution);
// a + (value * b) / c
void add_quotient(float* out, const float* a, const float* b, const float* c, float value, int64_t n,
                  const Execution& execution);
// |weight| < 0.5: fma(weight, b - a, a); else fma(weight - 1, b - a, b). A single weight, or a weight for each element.
void lerp(float* out, const float* a, const float* b, float weight, int64_t n, const Execution& execution);
void lerp(float* out, const float* a, const float* b, const float* weights, int64_t n, const Execution& execution);

// x^exponent. For the exponents 0.5, -0.5, -1, 2, 3, -2, 1 and 0: sqrt, rsqrt, reciprocal, square, cube,
// inverse_square, x and 1; all others by arithmetic/power.h, with the special cases of C's pow.
void power(float* out, const float* x, float exponent, int64_t n, const Execution& execution);
// x^exponent of each element and its own exponent, all by arithmetic/power.h.
void power(float* out, const float* x, const float* exponents, int64_t n, const Execution& execution);

}  // namespace estrain::kernels::portable
