#pragma once
// Parts of several optimizers' rules (optimizer_rules.h): weight decay, running averages, and sums that are fused with
// a product.

#include "kernels/host_device.h"
#include "kernels/optimizer.h"

namespace estrain::kernels::ESTRAIN_ISA {

static inline float rounded(double x) { return static_cast<float>(x); }

// gradient + weight_decay * parameter; the gradient alone if weight_decay is 0.
struct WeightDecay {
  Floats factor;
  bool is_there;

  explicit inline WeightDecay(double weight_decay)
      : factor(broadcast(rounded(weight_decay))), is_there(weight_decay != 0) {}

  ESTRAIN_HOST_DEVICE inline Floats operator()(Floats gradient, Floats parameter) const {
    return is_there ? multiply_add(factor, parameter, gradient) : gradient;
  }
};

// lerp_(): average + weight * (value - average), from the nearer end.
struct Lerp {
  Floats weight;
  bool near_start;

  explicit inline Lerp(double w)
      : weight(broadcast(rounded(w) < 0.5f ? rounded(w) : rounded(w) - 1)), near_start(rounded(w) < 0.5f) {}

  ESTRAIN_HOST_DEVICE inline Floats operator()(Floats average, Floats value) const {
    return multiply_add(weight, value - average, near_start ? average : value);
  }
};

// addcmul_() and addcdiv_(): selects the product that is fused with the sum, if any.
struct Fusing {
  bool as_on_cuda;

  // sum + scale * a * b
  ESTRAIN_HOST_DEVICE inline Floats product(Floats sum, Floats scale, Floats a, Floats b) const {
    if (as_on_cuda) return multiply_add(scale, a * b, sum);
    return multiply_add(scale * a, b, sum);
  }
  // sum + scale * a / b
  ESTRAIN_HOST_DEVICE inline Floats quotient(Floats sum, Floats scale, Floats a, Floats b) const {
    if (as_on_cuda) return multiply_add(scale, a / b, sum);
    return sum + (scale * a) / b;
  }
};

// 1 - beta^step: the share of gradients in a running average that started from 0.
static inline double correction(double beta, int64_t step) {
  return 1 - __builtin_pow(beta, static_cast<double>(step));
}

}  // namespace estrain::kernels::ESTRAIN_ISA
