#pragma once
// What an update does to one element of a parameter and its slots: for the CPU's loops (loops_optimizer.h) and CUDA
// alike. Floats is a vector of the instruction set that includes this, or one float; multiply_add() is that instruction
// set's.

#include "kernels/host_device.h"
#include "kernels/variants.h"

namespace estrain::kernels::ESTRAIN_ISA {

struct SgdRule {
  Floats minus_lr, momentum, one_minus_dampening, weight_decay;
  bool has_weight_decay, nesterov, first;

  ESTRAIN_HOST_DEVICE explicit inline SgdRule(const SgdScalars& k)
      : minus_lr(broadcast(k.minus_lr)),
        momentum(broadcast(k.momentum)),
        one_minus_dampening(broadcast(k.one_minus_dampening)),
        weight_decay(broadcast(k.weight_decay)),
        has_weight_decay(k.has_weight_decay),
        nesterov(k.nesterov),
        first(k.first) {}

  ESTRAIN_HOST_DEVICE inline Floats decayed(Floats parameter, Floats gradient) const {
    return has_weight_decay ? multiply_add(weight_decay, parameter, gradient) : gradient;
  }
  ESTRAIN_HOST_DEVICE inline void plain(Floats& parameter, Floats gradient) const {
    parameter = multiply_add(minus_lr, decayed(parameter, gradient), parameter);
  }
  ESTRAIN_HOST_DEVICE inline void with_momentum(Floats& parameter, Floats gradient, Floats& buffer) const {
    const Floats d = decayed(parameter, gradient);
    buffer = first ? d : multiply_add(one_minus_dampening, d, buffer * momentum);
    parameter = multiply_add(minus_lr, nesterov ? multiply_add(momentum, buffer, d) : buffer, parameter);
  }
};

struct AdamRule {
  Floats lerp_weight, beta2, one_minus_beta2, root_correction, eps, minus_step_size, weight_decay, decay_factor;
  bool near_start, shrink, pull;  // lerp starts from the nearer end
  bool as_on_cuda;

  ESTRAIN_HOST_DEVICE explicit inline AdamRule(const AdamScalars& k)
      : lerp_weight(broadcast(k.lerp_weight < 0.5f ? k.lerp_weight : k.lerp_weight - 1)),
        beta2(broadcast(k.beta2)),
        one_minus_beta2(broadcast(k.one_minus_beta2)),
        root_correction(broadcast(k.root_correction)),
        eps(broadcast(k.eps)),
        minus_step_size(broadcast(k.minus_step_size)),
        weight_decay(broadcast(k.weight_decay)),
        decay_factor(broadcast(k.decay_factor)),
        near_start(k.lerp_weight < 0.5f),
        shrink(k.has_weight_decay && k.decoupled),
        pull(k.has_weight_decay && !k.decoupled),
        as_on_cuda(k.as_on_cuda) {}

  ESTRAIN_HOST_DEVICE inline Floats pulled(Floats gradient, Floats parameter) const {
    return multiply_add(weight_decay, parameter, gradient);
  }
  ESTRAIN_HOST_DEVICE inline void moments(Floats gradient, Floats& average, Floats& square) const {
    average = multiply_add(lerp_weight, gradient - average, near_start ? average : gradient);
    square = as_on_cuda ? multiply_add(one_minus_beta2, gradient * gradient, square * beta2)
                        : multiply_add(one_minus_beta2 * gradient, gradient, square * beta2);
  }
  // `root`: of the new square.
  ESTRAIN_HOST_DEVICE inline Floats moved(Floats parameter, Floats average, Floats root) const {
    if (shrink) parameter = parameter * decay_factor;
    const Floats denominator = root / root_correction + eps;
    if (as_on_cuda) return multiply_add(minus_step_size, average / denominator, parameter);
    return parameter + (minus_step_size * average) / denominator;
  }
};

}  // namespace estrain::kernels::ESTRAIN_ISA
