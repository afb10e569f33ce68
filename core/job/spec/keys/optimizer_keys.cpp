#include <fmt/format.h>

#include "core/job/spec/keys/key_parts.h"

namespace estrain::spec {
namespace {

const Words with_betas = {"adam", "adamw"};
const Words with_momentum = {"sgd", "rmsprop"};
const Words with_eps = {"adam", "adamw", "rmsprop", "adagrad"};
const Words with_period = {"step", "cosine", "linear", "polynomial", "onecycle"};
const Words with_unit = {"constant", "step", "multistep", "cosine", "linear", "polynomial", "onecycle"};
const Words with_warmup = {"constant", "step", "multistep", "cosine", "linear", "polynomial"};

// "0; adamw 0.01": an optimizer setting's defaults.
std::string defaults_of(double OptimizerTraits::*setting) {
  std::string text = fmt::format("{}", optimizers[0].*setting);
  for (const OptimizerTraits& optimizer : optimizers) {
    if (optimizer.*setting != optimizers[0].*setting)
      text += fmt::format("; {} {}", optimizer.name, optimizer.*setting);
  }
  return text;
}

}  // namespace

std::vector<Key<JobSpec>> optimizer_and_schedule_keys() {
  return {
      ESTRAIN_KEY(optimizer.name).means("The optimizer, with torch.optim's arithmetic and defaults."),
      ESTRAIN_KEY(optimizer.lr)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::lr))
          .means("Learning rate, before the schedule."),
      ESTRAIN_KEY(optimizer.momentum).min(0).only("optimizer.name", with_momentum).means("Momentum factor."),
      ESTRAIN_KEY(optimizer.dampening).only("optimizer.name", {"sgd"}).means("Dampening of the momentum."),
      ESTRAIN_KEY(optimizer.nesterov)
          .only("optimizer.name", {"sgd"})
          .means("Nesterov's momentum; needs momentum > 0 and no dampening."),
      ESTRAIN_KEY(optimizer.weight_decay)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::weight_decay))
          .means("Weight decay: decoupled (adamw), otherwise an L2 term."),
      ESTRAIN_KEY(optimizer.betas)
          .min(0)
          .below(1)
          .lengths({2})
          .only("optimizer.name", with_betas)
          .means("Decay rates of the running averages of the gradient and of its square."),
      ESTRAIN_KEY(optimizer.eps)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::eps))
          .only("optimizer.name", with_eps)
          .means("Added to the denominator."),
      ESTRAIN_KEY(optimizer.alpha)
          .min(0)
          .only("optimizer.name", {"rmsprop"})
          .means("Decay rate of the running average of the gradient's square."),
      ESTRAIN_KEY(optimizer.centered)
          .only("optimizer.name", {"rmsprop"})
          .means("Whether to divide by the gradient's variance: subtracts the square of the average gradient."),
      ESTRAIN_KEY(optimizer.lr_decay)
          .min(0)
          .only("optimizer.name", {"adagrad"})
          .means("Decay of the learning rate at every update of a parameter."),
      ESTRAIN_KEY(optimizer.initial_accumulator_value)
          .min(0)
          .only("optimizer.name", {"adagrad"})
          .means("Initial value of the sum of the gradients' squares."),
      ESTRAIN_KEY(optimizer.groups).means("Parameters with their own settings; the first match wins."),

      ESTRAIN_KEY(schedule.name)
          .means("How the learning rate changes: like torch's StepLR, MultiStepLR, CosineAnnealingLR, LinearLR, "
                 "PolynomialLR, OneCycleLR, ReduceLROnPlateau, or not at all."),
      ESTRAIN_KEY(schedule.unit)
          .only("schedule.name", with_unit)
          .means("Unit of period, milestones and warmup, and of the schedule's updates."),
      ESTRAIN_KEY(schedule.period)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", with_period)
          .means("Units between two drops (step), until the lowest rate (cosine), until the last factor (linear), "
                 "until zero "
                 "(polynomial), in the whole cycle (onecycle)."),
      ESTRAIN_KEY(schedule.gamma).above(0).only("schedule.name", {"step", "multistep"}).means("Factor of each drop."),
      ESTRAIN_KEY(schedule.milestones)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", {"multistep"})
          .means("Units after which the rate drops; a number given twice drops it twice."),
      ESTRAIN_KEY(schedule.eta_min).min(0).only("schedule.name", {"cosine"}).means("Lowest learning rate."),
      ESTRAIN_KEY(schedule.start_factor)
          .above(0)
          .max(1)
          .only("schedule.name", {"linear"})
          .means("Factor on the learning rate at the start."),
      ESTRAIN_KEY(schedule.end_factor)
          .min(0)
          .max(1)
          .only("schedule.name", {"linear"})
          .means("Factor on the learning rate after the period."),
      ESTRAIN_KEY(schedule.power).min(0).only("schedule.name", {"polynomial"}).means("Power of the polynomial."),
      ESTRAIN_KEY(schedule.pct_start)
          .above(0)
          .below(1)
          .only("schedule.name", {"onecycle"})
          .means("Fraction of the period in which the rate rises to optimizer.lr."),
      ESTRAIN_KEY(schedule.anneal_strategy).only("schedule.name", {"onecycle"}).means("How the rate rises and falls."),
      ESTRAIN_KEY(schedule.div_factor)
          .above(0)
          .only("schedule.name", {"onecycle"})
          .means("The first rate is optimizer.lr divided by this."),
      ESTRAIN_KEY(schedule.final_div_factor)
          .above(0)
          .only("schedule.name", {"onecycle"})
          .means("The last rate is the first one divided by this."),
      ESTRAIN_KEY(schedule.three_phase)
          .only("schedule.name", {"onecycle"})
          .means("Whether the rate first falls to the first rate, mirroring its rise, and then to the last rate."),
      ESTRAIN_KEY(schedule.metric)
          .only("schedule.name", following_evaluations)
          .means("The metric of evaluations that must improve: the loss by falling, the accuracy by rising."),
      ESTRAIN_KEY(schedule.factor)
          .above(0)
          .below(1)
          .only("schedule.name", following_evaluations)
          .means("Factor of each drop."),
      ESTRAIN_KEY(schedule.patience)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", following_evaluations)
          .means(
              "Evaluations in a row without improvement that pass; the rate drops after one more, as PyTorch's does."),
      ESTRAIN_KEY(schedule.threshold)
          .min(0)
          .only("schedule.name", following_evaluations)
          .means("Least improvement over the best evaluation that counts."),
      ESTRAIN_KEY(schedule.threshold_mode)
          .only("schedule.name", following_evaluations)
          .means("Whether the threshold is a fraction of the best value (rel) or a difference from it (abs)."),
      ESTRAIN_KEY(schedule.cooldown)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", following_evaluations)
          .means("Evaluations after a drop that do not count against the patience."),
      ESTRAIN_KEY(schedule.min_lr).min(0).only("schedule.name", following_evaluations).means("Lowest learning rate."),
      ESTRAIN_KEY(schedule.warmup)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", with_warmup)
          .means("Units of linear warm-up before the schedule; 0: none."),
      ESTRAIN_KEY(schedule.warmup_start)
          .above(0)
          .max(1)
          .only("schedule.name", with_warmup)
          .means("Factor on the learning rate at the warm-up's start."),
  };
}

#define ESTRAIN_GROUP_KEY(field) \
  make_key<OptimizerGroup>(      \
      #field, [](auto& group) -> auto& { return group.field; })

const std::vector<Key<OptimizerGroup>>& group_keys() {
  static const std::vector<Key<OptimizerGroup>> keys = {
      ESTRAIN_GROUP_KEY(match).filled().must_be_given().means(
          "Glob patterns (`*`, `?`, `[abc]`) on the names of parameters, such as `*.bias`."),
      ESTRAIN_GROUP_KEY(lr).min(0).unset("optimizer.lr").means("The group's learning rate."),
      ESTRAIN_GROUP_KEY(weight_decay).min(0).unset("optimizer.weight_decay").means("The group's weight decay."),
      ESTRAIN_GROUP_KEY(momentum)
          .min(0)
          .unset("optimizer.momentum")
          .only("optimizer.name", with_momentum)
          .means("The group's momentum."),
  };
  return keys;
}

#undef ESTRAIN_GROUP_KEY

}  // namespace estrain::spec
