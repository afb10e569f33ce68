#include "kernels/portable/elementwise.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::portable {
namespace {

const ElementwiseLoops& loops(const Execution& execution) { return elementwise_loops_of(execution); }

ElementwiseArguments elu_arguments(float* out, const float* a, const float* b, int64_t n, const Elu& options) {
  const float negative = options.alpha * options.scale;
  return {out, {a, b}, {options.scale, options.input_scale, negative, options.input_scale * negative}, n};
}

std::optional<Unary> composition(float exponent) {
  if (exponent == 0.5f) return Unary::sqrt;
  if (exponent == -0.5f) return Unary::rsqrt;
  if (exponent == -1) return Unary::reciprocal;
  if (exponent == 2) return Unary::square;
  if (exponent == 3) return Unary::cube;
  if (exponent == -2) return Unary::inverse_square;
  return std::nullopt;
}

}  // namespace

void unary(Unary function, float* out, const float* x, int64_t n, const Execution& execution) {
  loops(execution).unary[static_cast<int>(function)]({out, {x}, {}, n}, execution);
}

void unary_backward(UnaryBackward function, float* out, const float* gradient, const float* saved, int64_t n,
                    const Execution& execution) {
  loops(execution).unary_backward[static_cast<int>(function)]({out, {gradient, saved}, {}, n}, execution);
}

void softplus(float* out, const float* x, int64_t n, const Softplus& options, const Execution& execution) {
  loops(execution).softplus({out, {x}, {options.beta, options.threshold}, n}, execution);
}

void softplus_backward(float* out, const float* gradient, const float* x, int64_t n, const Softplus& options,
                       const Execution& execution) {
  loops(execution).softplus_backward({out, {gradient, x}, {options.beta, options.threshold}, n}, execution);
}

void elu(float* out, const float* x, int64_t n, const Elu& options, const Execution& execution) {
  loops(execution).elu(elu_arguments(out, x, nullptr, n, options), execution);
}

void elu_backward(float* out, const float* gradient, const float* saved, int64_t n, const Elu& options,
                  const Execution& execution) {
  const ElementwiseLoops& table = loops(execution);
  const Elementwise loop = options.saved_is_result ? table.elu_backward_of_result : table.elu_backward_of_input;
  loop(elu_arguments(out, gradient, saved, n, options), execution);
}

void add_scaled(float* out, const float* a, const float* b, float alpha, int64_t n, const Execution& execution) {
  loops(execution).add_scaled({out, {a, b}, {alpha}, n}, execution);
}

void add_scaled_number(float* out, const float* a, float b, float alpha, int64_t n, const Execution& execution) {
  loops(execution).add_scaled_number({out, {a}, {alpha, b}, n}, execution);
}

void add_product(float* out, const float* a, const float* b, const float* c, float value, int64_t n,
                 const Execution& execution) {
  loops(execution).add_product({out, {a, b, c}, {value}, n}, execution);
}

void add_quotient(float* out, const float* a, const float* b, const float* c, float value, int64_t n,
                  const Execution& execution) {
  loops(execution).add_quotient({out, {a, b, c}, {value}, n}, execution);
}

void lerp(float* out, const float* a, const float* b, float weight, int64_t n, const Execution& execution) {
  loops(execution).lerp({out, {a, b}, {weight}, n}, execution);
}

void lerp(float* out, const float* a, const float* b, const float* weights, int64_t n, const Execution& execution) {
  loops(execution).lerp_by_weights({out, {a, b, weights}, {}, n}, execution);
}

void power(float* out, const float* x, float exponent, int64_t n, const Execution& execution) {
  if (exponent == 0 && execution.device != nullptr) {
    execution.device->kernels->fill(out, n, 1, execution);
  } else if (exponent == 1 && execution.device != nullptr) {
    execution.device->kernels->copy(out, x, n, execution);
  } else if (exponent == 0) {
    std::fill_n(out, n, 1.0f);
  } else if (exponent == 1) {
    std::memmove(out, x, static_cast<size_t>(n) * sizeof(float));
  } else if (const std::optional<Unary> function = composition(exponent)) {
    unary(*function, out, x, n, execution);
  } else {
    loops(execution).power({out, {x}, {exponent}, n}, execution);
  }
}

void power(float* out, const float* x, const float* exponents, int64_t n, const Execution& execution) {
  loops(execution).power_by_exponents({out, {x, exponents}, {}, n}, execution);
}

}  // namespace estrain::kernels::portable
