#pragma once
// The rules of Adam, AdamW, NAdam and RAdam, in the shape that optimizer_rules.h describes. Adam's rule with amsgrad
// has a third slot.

#include "kernels/host_device.h"
#include "kernels/optimizer.h"
#include "kernels/rule_parts.h"

namespace estrain::kernels::ESTRAIN_ISA {

// The running averages of the gradient, slot 0, and of its square, slot 1.
struct Moments {
  Lerp lerp;
  Floats beta2, one_minus_beta2;
  Fusing fusing;

  inline Moments(double beta1_value, double beta2_value, const Rounding& rounding)
      : lerp(1 - beta1_value),
        beta2(broadcast(rounded(beta2_value))),
        one_minus_beta2(broadcast(rounded(1 - beta2_value))),
        fusing{rounding.as_on_cuda} {}

  ESTRAIN_HOST_DEVICE inline void update(Floats gradient, Floats* slot) const {
    slot[0] = lerp(slot[0], gradient);
    slot[1] = fusing.product(slot[1] * beta2, one_minus_beta2, gradient, gradient);
  }
};

// Weight decay: decoupled, a factor on the parameter, or a term of the gradient.
struct EitherDecay {
  WeightDecay pull;
  Floats factor;
  bool shrinks;

  inline EitherDecay(double lr, double weight_decay, bool decoupled)
      : pull(decoupled ? 0 : weight_decay),
        factor(broadcast(rounded(1 - lr * weight_decay))),
        shrinks(weight_decay != 0 && decoupled) {}

  ESTRAIN_HOST_DEVICE inline Floats shrunk(Floats parameter) const { return shrinks ? parameter * factor : parameter; }
};

// What the three rules have in common.
struct MomentsRule {
  static constexpr bool takes_root = true;
  Moments moments;
  EitherDecay decay;
  Floats eps;

  template <typename Settings>
  explicit inline MomentsRule(const Settings& o)
      : moments(o.beta1, o.beta2, o.rounding),
        decay(o.lr, o.weight_decay, o.decoupled),
        eps(broadcast(rounded(o.eps))) {}

  ESTRAIN_HOST_DEVICE static constexpr bool reads_slots() { return true; }
  ESTRAIN_HOST_DEVICE static constexpr bool is_late(int) { return false; }
  ESTRAIN_HOST_DEVICE inline bool decays() const { return decay.pull.is_there; }
  ESTRAIN_HOST_DEVICE inline Floats decayed(Floats gradient, Floats parameter) const {
    return decay.pull(gradient, parameter);
  }
};

template <bool amsgrad>
struct AdamRule : MomentsRule {
  static constexpr int slots = amsgrad ? 3 : 2;
  static constexpr int root_of_slot = amsgrad ? 2 : 1;
  Floats root_correction, minus_step_size;

  explicit inline AdamRule(const Adam& o)
      : MomentsRule(o),
        root_correction(broadcast(rounded(__builtin_pow(correction(o.beta2, o.step), 0.5)))),
        minus_step_size(broadcast(rounded(-(o.lr / correction(o.beta1, o.step))))) {}

  ESTRAIN_HOST_DEVICE inline Floats radicand(Floats gradient, Floats* slot) const {
    moments.update(gradient, slot);
    if constexpr (amsgrad) slot[2] = greater(slot[1], slot[2]);  // a NaN of slot 2 stays
    return slot[root_of_slot];
  }
  ESTRAIN_HOST_DEVICE inline void move(Floats& parameter, Floats, Floats* slot, Floats root) const {
    parameter =
        moments.fusing.quotient(decay.shrunk(parameter), minus_step_size, slot[0], root / root_correction + eps);
  }
};

template <typename Body>
static inline auto with_rule(const Adam& o, Body body) {
  return o.amsgrad ? body(AdamRule<true>(o)) : body(AdamRule<false>(o));
}

// On CUDA devices torch.optim's default implementation corrects the root instead of the radicand.
struct NadamRule : MomentsRule {
  static constexpr int slots = 2;
  static constexpr int root_of_slot = -1;
  Floats square_correction, root_correction, minus_gradient_rate, minus_average_rate;

  explicit inline NadamRule(const Nadam& o) : NadamRule(o, momentum(o, o.step), momentum(o, o.step + 1)) {}

  ESTRAIN_HOST_DEVICE inline Floats radicand(Floats gradient, Floats* slot) const {
    moments.update(gradient, slot);
    return moments.fusing.as_on_cuda ? slot[1] : slot[1] / square_correction;
  }
  ESTRAIN_HOST_DEVICE inline void move(Floats& parameter, Floats gradient, Floats* slot, Floats root) const {
    const Floats denominator = (moments.fusing.as_on_cuda ? root / root_correction : root) + eps;
    const Floats half = moments.fusing.quotient(decay.shrunk(parameter), minus_gradient_rate, gradient, denominator);
    parameter = moments.fusing.quotient(half, minus_average_rate, slot[0], denominator);
  }

 private:
  inline NadamRule(const Nadam& o, double now, double next)
      : MomentsRule(o),
        square_correction(broadcast(rounded(correction(o.beta2, o.step)))),
        root_correction(broadcast(rounded(__builtin_pow(correction(o.beta2, o.step), 0.5)))),
        minus_gradient_rate(broadcast(rounded(-o.lr * (1 - now) / (1 - product(o))))),
        minus_average_rate(broadcast(rounded(-o.lr * next / (1 - product(o) * next)))) {}

  static inline double momentum(const Nadam& o, int64_t step) {
    return o.beta1 * (1.0 - 0.5 * __builtin_pow(0.96, static_cast<double>(step) * o.momentum_decay));
  }
  // The product of the momenta of all steps, a float like torch's mu_product. A product below 2^-60 is lost beside 1,
  // and stays so: with beta1 = 0.9 after at most 400 steps.
  static inline double product(const Nadam& o) {
    float all = 1;
    for (int64_t step = 1; step <= o.step && all > 0x1p-60f; ++step) all *= rounded(momentum(o, step));
    return all;
  }
};

template <typename Body>
static inline auto with_rule(const Nadam& o, Body body) {
  return body(NadamRule(o));
}

// The early updates, whose variance has no bound, do without the root. On CUDA devices torch.optim's default
// implementation computes one factor of the average from the root.
struct RadamRule : MomentsRule {
  static constexpr int slots = 2;
  static constexpr int root_of_slot = 1;
  Floats average_correction, lr, root_correction, rectification, minus_one, one, divisor, minus_plain_rate;
  bool rectifies;

  explicit inline RadamRule(const Radam& o) : RadamRule(o, length(o), 2 / (1 - o.beta2) - 1) {}

  ESTRAIN_HOST_DEVICE inline Floats radicand(Floats gradient, Floats* slot) const {
    moments.update(gradient, slot);
    return slot[1];
  }
  ESTRAIN_HOST_DEVICE inline void move(Floats& parameter, Floats, Floats* slot, Floats root) const {
    const Floats start = decay.shrunk(parameter);
    if (moments.fusing.as_on_cuda) {
      parameter = moments.fusing.product(start, one, slot[0], one / ((root + eps) / divisor) + minus_plain_rate);
      return;
    }
    Floats step = slot[0] / average_correction * lr;
    if (rectifies) step = step * (one / (root + eps) * root_correction) * rectification;
    parameter = multiply_add(minus_one, step, start);
  }

 private:
  // The length of the average of squares: torch's rho_t.
  static inline double length(const Radam& o) {
    const double step = static_cast<double>(o.step), longest = 2 / (1 - o.beta2) - 1;
    return longest - 2 * step * __builtin_pow(o.beta2, step) / correction(o.beta2, o.step);
  }
  static inline double rectified(double now, double longest) {
    if (now <= 5) return 0;
    return __builtin_pow((now - 4) * (now - 2) * longest / ((longest - 4) * (longest - 2) * now), 0.5);
  }

  inline RadamRule(const Radam& o, double now, double longest)
      : MomentsRule(o),
        average_correction(broadcast(rounded(correction(o.beta1, o.step)))),
        lr(broadcast(rounded(o.lr))),
        root_correction(broadcast(rounded(__builtin_pow(correction(o.beta2, o.step), 0.5)))),
        rectification(broadcast(rounded(rectified(now, longest)))),
        minus_one(broadcast(-1)),
        one(broadcast(1)),
        divisor(broadcast(rounded(__builtin_pow(correction(o.beta2, o.step), 0.5) *
                                  (o.lr * rectified(now, longest) / correction(o.beta1, o.step)) * -1))),
        minus_plain_rate(broadcast(rounded(o.lr * (now > 5 ? 0 : 1) / correction(o.beta1, o.step) * -1))),
        rectifies(now > 5) {}
};

template <typename Body>
static inline auto with_rule(const Radam& o, Body body) {
  return body(RadamRule(o));
}

}  // namespace estrain::kernels::ESTRAIN_ISA
