#pragma once
// The update of one element of a parameter and its slots, for the CPU's loops (loops/optimizer.cpp) and CUDA alike.
// Floats is a vector of the including instruction set, or a single float; multiply_add() is the function of the same
// instruction set.
//
// A rule is made from its optimizer's settings, which are combined as doubles and rounded to float once, like PyTorch's
// scalars. A rule has
//   slots               the number of arrays that the rule keeps
//   reads_slots()       whether the update reads the old contents of the slots
//   takes_root          whether the update takes a square root, which another library may compute
// A rule without a root has
//   update(parameter, gradient, slots)
// A rule with a root has these functions, called in this order; update_element() calls all of them:
//   decayed(gradient, parameter)              the gradient with its weight decay, if decays()
//   radicand(gradient, slots)                 writes the slots except those for which is_late(slot); returns the
//                                             radicand: slot root_of_slot, or no slot's value if that is -1
//   move(parameter, gradient, slots, root)    writes the parameter and the late slots
// with_rule(settings, body) calls body(rule) with the rule for these settings.

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

template <bool has_momentum>
struct SgdRule {
  static constexpr int slots = has_momentum ? 1 : 0;
  static constexpr bool takes_root = false;
  Floats minus_lr, momentum, one_minus_dampening;
  WeightDecay decay;
  bool nesterov, first;

  ESTRAIN_HOST_DEVICE inline bool reads_slots() const { return !first; }

  explicit inline SgdRule(const Sgd& o)
      : minus_lr(broadcast(rounded(-o.lr))),
        momentum(broadcast(rounded(o.momentum))),
        one_minus_dampening(broadcast(rounded(1 - o.dampening))),
        decay(o.weight_decay),
        nesterov(o.nesterov),
        first(o.first) {}

  ESTRAIN_HOST_DEVICE inline void update(Floats& parameter, Floats gradient, Floats* slot) const {
    Floats d = decay(gradient, parameter);
    if constexpr (has_momentum) {
      slot[0] = first ? d : multiply_add(one_minus_dampening, d, slot[0] * momentum);
      d = nesterov ? multiply_add(momentum, slot[0], d) : slot[0];
    }
    parameter = multiply_add(minus_lr, d, parameter);
  }
};

template <typename Body>
static inline auto with_rule(const Sgd& o, Body body) {
  return o.momentum != 0 ? body(SgdRule<true>(o)) : body(SgdRule<false>(o));
}

struct AdamRule {
  static constexpr int slots = 2;
  static constexpr bool takes_root = true;
  static constexpr int root_of_slot = 1;
  Lerp lerp;
  Floats beta2, one_minus_beta2, root_correction, eps, minus_step_size, decay_factor;
  WeightDecay pull;
  Fusing fusing;
  bool shrink;

  explicit inline AdamRule(const Adam& o)
      : lerp(1 - o.beta1),
        beta2(broadcast(rounded(o.beta2))),
        one_minus_beta2(broadcast(rounded(1 - o.beta2))),
        root_correction(broadcast(rounded(__builtin_pow(correction(o.beta2, o.step), 0.5)))),
        eps(broadcast(rounded(o.eps))),
        minus_step_size(broadcast(rounded(-(o.lr / correction(o.beta1, o.step))))),
        decay_factor(broadcast(rounded(1 - o.lr * o.weight_decay))),
        pull(o.decoupled ? 0 : o.weight_decay),
        fusing{o.rounding.as_on_cuda},
        shrink(o.weight_decay != 0 && o.decoupled) {}

  static inline double correction(double beta, int64_t step) {
    return 1 - __builtin_pow(beta, static_cast<double>(step));
  }
  ESTRAIN_HOST_DEVICE static constexpr bool reads_slots() { return true; }
  ESTRAIN_HOST_DEVICE static constexpr bool is_late(int) { return false; }
  ESTRAIN_HOST_DEVICE inline bool decays() const { return pull.is_there; }
  ESTRAIN_HOST_DEVICE inline Floats decayed(Floats gradient, Floats parameter) const {
    return pull(gradient, parameter);
  }
  ESTRAIN_HOST_DEVICE inline Floats radicand(Floats gradient, Floats* slot) const {
    slot[0] = lerp(slot[0], gradient);
    slot[1] = fusing.product(slot[1] * beta2, one_minus_beta2, gradient, gradient);
    return slot[1];
  }
  ESTRAIN_HOST_DEVICE inline void move(Floats& parameter, Floats, Floats* slot, Floats root) const {
    if (shrink) parameter = parameter * decay_factor;
    parameter = fusing.quotient(parameter, minus_step_size, slot[0], root / root_correction + eps);
  }
};

template <typename Body>
static inline auto with_rule(const Adam& o, Body body) {
  return body(AdamRule(o));
}

template <bool has_momentum, bool centered>
struct RmspropRule {
  static constexpr int slots = 1 + (has_momentum ? 1 : 0) + (centered ? 1 : 0);
  static constexpr bool takes_root = true;
  static constexpr int root_of_slot = centered ? -1 : 0;
  Floats alpha, one_minus_alpha, eps, momentum, minus_lr, one, minus_one;
  Lerp lerp;
  WeightDecay decay;
  Fusing fusing;

  explicit inline RmspropRule(const Rmsprop& o)
      : alpha(broadcast(rounded(o.alpha))),
        one_minus_alpha(broadcast(rounded(1 - o.alpha))),
        eps(broadcast(rounded(o.eps))),
        momentum(broadcast(rounded(o.momentum))),
        minus_lr(broadcast(rounded(-o.lr))),
        one(broadcast(1)),
        minus_one(broadcast(-1)),
        lerp(1 - o.alpha),
        decay(o.weight_decay),
        fusing{o.rounding.as_on_cuda} {}

  ESTRAIN_HOST_DEVICE static constexpr bool reads_slots() { return true; }
  ESTRAIN_HOST_DEVICE static constexpr bool is_late(int slot) { return has_momentum && slot == 1; }
  ESTRAIN_HOST_DEVICE inline bool decays() const { return decay.is_there; }
  ESTRAIN_HOST_DEVICE inline Floats decayed(Floats gradient, Floats parameter) const {
    return decay(gradient, parameter);
  }
  ESTRAIN_HOST_DEVICE inline Floats radicand(Floats gradient, Floats* slot) const {
    slot[0] = fusing.product(slot[0] * alpha, one_minus_alpha, gradient, gradient);
    if constexpr (!centered) return slot[0];
    Floats& average = slot[slots - 1];
    average = lerp(average, gradient);
    return fusing.product(slot[0], minus_one, average, average);
  }
  ESTRAIN_HOST_DEVICE inline void move(Floats& parameter, Floats gradient, Floats* slot, Floats root) const {
    const Floats denominator = root + eps;
    if constexpr (has_momentum) {
      slot[1] = fusing.quotient(slot[1] * momentum, one, gradient, denominator);
      parameter = multiply_add(minus_lr, slot[1], parameter);
    } else {
      parameter = fusing.quotient(parameter, minus_lr, gradient, denominator);
    }
  }
};

template <typename Body>
static inline auto with_rule(const Rmsprop& o, Body body) {
  if (o.momentum > 0) return o.centered ? body(RmspropRule<true, true>(o)) : body(RmspropRule<true, false>(o));
  return o.centered ? body(RmspropRule<false, true>(o)) : body(RmspropRule<false, false>(o));
}

struct AdagradRule {
  static constexpr int slots = 1;
  static constexpr bool takes_root = true;
  static constexpr int root_of_slot = 0;
  Floats minus_rate, eps, start, one;
  WeightDecay decay;
  Fusing fusing;
  bool first;

  explicit inline AdagradRule(const Adagrad& o)
      : minus_rate(broadcast(rounded(-(o.lr / (1 + static_cast<double>(o.step - 1) * o.lr_decay))))),
        eps(broadcast(rounded(o.eps))),
        start(broadcast(rounded(o.initial_accumulator_value))),
        one(broadcast(1)),
        decay(o.weight_decay),
        fusing{o.rounding.as_on_cuda},
        first(o.step == 1) {}

  ESTRAIN_HOST_DEVICE inline bool reads_slots() const { return !first; }
  ESTRAIN_HOST_DEVICE static constexpr bool is_late(int) { return false; }
  ESTRAIN_HOST_DEVICE inline bool decays() const { return decay.is_there; }
  ESTRAIN_HOST_DEVICE inline Floats decayed(Floats gradient, Floats parameter) const {
    return decay(gradient, parameter);
  }
  ESTRAIN_HOST_DEVICE inline Floats radicand(Floats gradient, Floats* slot) const {
    slot[0] = fusing.product(first ? start : slot[0], one, gradient, gradient);
    return slot[0];
  }
  // torch.optim multiplies the gradient first on CUDA devices, too.
  ESTRAIN_HOST_DEVICE inline void move(Floats& parameter, Floats gradient, Floats*, Floats root) const {
    parameter = parameter + (minus_rate * gradient) / (root + eps);
  }
};

template <typename Body>
static inline auto with_rule(const Adagrad& o, Body body) {
  return body(AdagradRule(o));
}

template <typename Rule>
ESTRAIN_HOST_DEVICE inline void update_element(const Rule& rule, Floats& parameter, Floats gradient, Floats* slots) {
  if constexpr (Rule::takes_root) {
    const Floats decayed = rule.decayed(gradient, parameter);
    rule.move(parameter, decayed, slots, square_root(rule.radicand(decayed, slots)));
  } else {
    rule.update(parameter, gradient, slots);
  }
}

}  // namespace estrain::kernels::ESTRAIN_ISA
