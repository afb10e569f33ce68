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
//   shows_slots         without a root: whether a slot that is not finite makes the new parameter not finite
// A rule without a root has
//   update(parameter, gradient, slots)
// A rule with a root has these functions, called in this order; update_element() calls all of them:
//   decayed(gradient, parameter)              the gradient with its weight decay, if decays()
//   radicand(gradient, slots)                 writes the slots except those for which is_late(slot); returns the
//                                             radicand: slot root_of_slot, or no slot's value if that is -1
//   move(parameter, gradient, slots, root)    writes the parameter and the late slots
// with_rule(settings, body) calls body(rule) with the rule for these settings.

#include "kernels/adam_rules.h"
#include "kernels/host_device.h"
#include "kernels/optimizer.h"
#include "kernels/rule_parts.h"

namespace estrain::kernels::ESTRAIN_ISA {

template <bool has_momentum>
struct SgdRule {
  static constexpr int slots = has_momentum ? 1 : 0;
  static constexpr bool takes_root = false, shows_slots = true;
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
  // A gradient of +0 leaves the parameter as it is, whatever the root, unless the radicand is negative or NaN.
  bool rests_on_zeros;

  explicit inline AdagradRule(const Adagrad& o)
      : minus_rate(broadcast(rounded(-(o.lr / (1 + static_cast<double>(o.step - 1) * o.lr_decay))))),
        eps(broadcast(rounded(o.eps))),
        start(broadcast(rounded(o.initial_accumulator_value))),
        one(broadcast(1)),
        decay(o.weight_decay),
        fusing{o.rounding.as_on_cuda},
        first(o.step == 1),
        rests_on_zeros(!decay.is_there && rounded(o.eps) > 0 && o.lr > 0 && o.lr < 1e30) {}

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

// The formula of the authors' program (X. Chen et al., "Symbolic Discovery of Optimization Algorithms", algorithm 2;
// `lion_pytorch` of google/automl), operation by operation: the sign of an average that counts the gradient more than
// the slot does.
struct LionRule {
  static constexpr int slots = 1;
  static constexpr bool takes_root = false, shows_slots = false;
  Floats beta1, one_minus_beta1, beta2, one_minus_beta2, minus_lr, decay_factor, one, zero;

  explicit inline LionRule(const Lion& o)
      : beta1(broadcast(rounded(o.beta1))),
        one_minus_beta1(broadcast(rounded(1 - o.beta1))),
        beta2(broadcast(rounded(o.beta2))),
        one_minus_beta2(broadcast(rounded(1 - o.beta2))),
        minus_lr(broadcast(rounded(-o.lr))),
        decay_factor(broadcast(rounded(1 - o.lr * o.weight_decay))),
        one(broadcast(1)),
        zero(broadcast(0)) {}

  ESTRAIN_HOST_DEVICE static constexpr bool reads_slots() { return true; }
  ESTRAIN_HOST_DEVICE inline void update(Floats& parameter, Floats gradient, Floats* slot) const {
    const Floats direction = slot[0] * beta1 + gradient * one_minus_beta1;
    const Floats sign = (direction > zero ? one : zero) - (direction < zero ? one : zero);
    parameter = multiply_add(minus_lr, sign, parameter * decay_factor);
    slot[0] = multiply_add(one_minus_beta2, gradient, slot[0] * beta2);
  }
};

template <typename Body>
static inline auto with_rule(const Lion& o, Body body) {
  return body(LionRule(o));
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
