#include <fmt/format.h>

#include <algorithm>

#include "core/job/spec/keys/key_parts.h"

namespace estrain::spec {
namespace {

const Words with_betas = {"adam", "adamw", "nadam", "radam", "lion", "lamb"};
const Words with_momentum = {"sgd", "rmsprop", "muon"};
const Words with_eps = {"adam", "adamw", "rmsprop", "adagrad", "nadam", "radam", "lamb", "adafactor", "muon"};
const Words with_period = {"step", "cosine", "linear", "polynomial", "onecycle", "restarts", "inverse_sqrt", "wsd"};

// The schedules that are not in `without`.
Words schedules_but(const Words& without) {
  Words names;
  for (const ScheduleTraits& schedule : schedules) {
    if (std::ranges::find(without, schedule.name) == without.end()) names.emplace_back(schedule.name);
  }
  return names;
}

// "0; adamw 0.01": the defaults that text_of(optimizer) gives.
template <typename TextOf>
std::string defaults_of(TextOf text_of) {
  const std::string common = text_of(optimizers[0]);
  std::string text = common;
  for (const OptimizerTraits& optimizer : optimizers) {
    if (text_of(optimizer) != common) text += fmt::format("; {} {}", optimizer.name, text_of(optimizer));
  }
  return text;
}
std::string defaults_of(double OptimizerTraits::*setting) {
  return defaults_of([setting](const OptimizerTraits& optimizer) { return fmt::format("{}", optimizer.*setting); });
}
std::string defaults_of_betas() {
  return defaults_of(
      [](const OptimizerTraits& optimizer) { return fmt::format("[{}, {}]", optimizer.beta1, optimizer.beta2); });
}

}  // namespace

std::vector<SpecKey<JobSpec>> optimizer_and_schedule_keys() {
  return {
      ESTRAIN_KEY(optimizer.name)
          .means("The optimizer, with torch.optim's arithmetic and defaults; lion has those of google/automl's "
                 "program, lamb "
                 "those of timm's without a clipping of its own. lamb, adafactor and muon update whole parameters, "
                 "each by one "
                 "worker, and on a CPU where the devices are GPUs. muon takes parameters with two dimensions only; "
                 "others need a "
                 "group with another optimizer."),
      ESTRAIN_KEY(optimizer.lr)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::lr))
          .means("Learning rate, before the schedule."),
      ESTRAIN_KEY(optimizer.momentum)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::momentum))
          .only("optimizer.name", with_momentum)
          .means("Momentum factor; muon: decay rate of the running average of the gradient."),
      ESTRAIN_KEY(optimizer.dampening).only("optimizer.name", {"sgd"}).means("Dampening of the momentum."),
      ESTRAIN_KEY(optimizer.nesterov)
          .unset(defaults_of([](const OptimizerTraits& optimizer) { return toml::literal(optimizer.nesterov); }))
          .only("optimizer.name", {"sgd", "muon"})
          .means("Nesterov's momentum; sgd: needs momentum > 0 and no dampening."),
      ESTRAIN_KEY(optimizer.weight_decay)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::weight_decay))
          .means(
              "Weight decay: decoupled (adamw, lion, adafactor, muon, optimizer.decoupled_weight_decay), part of the "
              "step that is scaled (lamb), otherwise an L2 term."),
      ESTRAIN_KEY(optimizer.betas)
          .min(0)
          .below(1)
          .lengths({2})
          .unset(defaults_of_betas())
          .only("optimizer.name", with_betas)
          .means(
              "Decay rates of the running averages of the gradient and of its square; lion: of the average that gives "
              "the direction, and of the average that is kept."),
      ESTRAIN_KEY(optimizer.amsgrad)
          .only("optimizer.name", {"adam", "adamw"})
          .means("Whether to divide by the largest running average of the gradient's square until now."),
      ESTRAIN_KEY(optimizer.momentum_decay)
          .min(0)
          .only("optimizer.name", {"nadam"})
          .means("How fast the momentum rises to the first of the betas."),
      ESTRAIN_KEY(optimizer.decoupled_weight_decay)
          .only("optimizer.name", {"nadam", "radam"})
          .means("Whether the weight decay shrinks the parameters, as in adamw."),
      ESTRAIN_KEY(optimizer.eps)
          .min(0)
          .unset(defaults_of(&OptimizerTraits::eps))
          .only("optimizer.name", with_eps)
          .means("Added to the denominator; adafactor and muon: the least denominator (adafactor: torch's first eps)."),
      ESTRAIN_KEY(optimizer.trust_clip)
          .only("optimizer.name", {"lamb"})
          .means("Whether the ratio of the norms of parameter and step is at most 1."),
      ESTRAIN_KEY(optimizer.always_adapt)
          .only("optimizer.name", {"lamb"})
          .means("Whether parameters without weight decay are scaled by the ratio of norms, too."),
      ESTRAIN_KEY(optimizer.beta2_decay)
          .max(0)
          .only("optimizer.name", {"adafactor"})
          .means("Power of the number of updates that is the weight of a new gradient's square."),
      ESTRAIN_KEY(optimizer.eps2)
          .min(0)
          .only("optimizer.name", {"adafactor"})
          .means("Least root mean square of a parameter by which its step is scaled (torch's second eps)."),
      ESTRAIN_KEY(optimizer.d)
          .min(1)
          .only("optimizer.name", {"adafactor"})
          .means("Largest root mean square of a step before it is scaled."),
      ESTRAIN_KEY(optimizer.ns_coefficients)
          .lengths({3})
          .only("optimizer.name", {"muon"})
          .means("Coefficients of the Newton-Schulz iteration."),
      ESTRAIN_KEY(optimizer.ns_steps)
          .min(1)
          .max(99)
          .only("optimizer.name", {"muon"})
          .means("Iterations of Newton-Schulz."),
      ESTRAIN_KEY(optimizer.adjust_lr_fn)
          .only("optimizer.name", {"muon"})
          .means("How the learning rate depends on a matrix's sides: by the root of rows/columns where that is above 1 "
                 "(original), or so that steps are as large as AdamW's (match_rms_adamw)."),
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
      ESTRAIN_KEY(optimizer.layer_decay)
          .above(0)
          .max(1)
          .means("Factor on the learning rate for each layer further from the output. A layer is a number in the names "
                 "of parameters (`blocks.3.`), in the model's order; parameters before the first layer count as one "
                 "layer below it, parameters after the last layer as one above it."),
      ESTRAIN_KEY(optimizer.layers)
          .means("The layers of layer_decay where numbers in names are not the layers: glob patterns on the names of "
                 "parameters, one for each layer, from the input to the output."),
      ESTRAIN_KEY(optimizer.groups).means("Parameters with their own settings; the first match wins."),

      ESTRAIN_KEY(schedule.name)
          .means("How the learning rate changes: like torch's StepLR, MultiStepLR, CosineAnnealingLR, LinearLR, "
                 "PolynomialLR, OneCycleLR, ReduceLROnPlateau, ExponentialLR, CosineAnnealingWarmRestarts (restarts); "
                 "like one divided by the root of the steps; constant and then falling (wsd); by a table; or not at "
                 "all."),
      ESTRAIN_KEY(schedule.unit)
          .only("schedule.name", schedules_but({"plateau"}))
          .means("Unit of period, milestones and warmup, and of the schedule's updates."),
      ESTRAIN_KEY(schedule.period)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", with_period)
          .means(
              "Units between two drops (step), until the lowest rate (cosine), until the last factor (linear), "
              "until zero (polynomial), in the whole cycle (onecycle), in the first cycle (restarts), until the rate "
              "is lower by the root of 2 (inverse_sqrt), at the constant rate after the warm-up (wsd)."),
      ESTRAIN_KEY(schedule.gamma)
          .above(0)
          .only("schedule.name", {"step", "multistep", "exponential"})
          .means("Factor of each drop; exponential drops with every unit, and needs this key."),
      ESTRAIN_KEY(schedule.milestones)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", {"multistep"})
          .means("Units after which the rate drops; a number given twice drops it twice."),
      ESTRAIN_KEY(schedule.eta_min).min(0).only("schedule.name", {"cosine", "restarts"}).means("Lowest learning rate."),
      ESTRAIN_KEY(schedule.period_factor)
          .min(1)
          .max(kMostUnits)
          .only("schedule.name", {"restarts"})
          .means("Factor from a cycle's length to that of the next one."),
      ESTRAIN_KEY(schedule.decay)
          .min(1)
          .max(kMostSteps)
          .only("schedule.name", {"wsd"})
          .means("Units in which the rate falls after the period."),
      ESTRAIN_KEY(schedule.decay_shape).only("schedule.name", {"wsd"}).means("How the rate falls."),
      ESTRAIN_KEY(schedule.min_factor)
          .min(0)
          .max(1)
          .only("schedule.name", {"wsd"})
          .means("Factor on the learning rate after the fall."),
      ESTRAIN_KEY(schedule.points)
          .min(0)
          .max(kMostSteps)
          .only("schedule.name", {"table"})
          .means("Units, rising from 0, counted from the end of the warm-up."),
      ESTRAIN_KEY(schedule.factors)
          .min(0)
          .only("schedule.name", {"table"})
          .means("Factors on the learning rate, one for each of the points."),
      ESTRAIN_KEY(schedule.between)
          .only("schedule.name", {"table"})
          .means("Whether a factor holds until the next point, or goes there in a straight line."),
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
          .only("schedule.name", schedules_but({"onecycle", "plateau"}))
          .means("Units of linear warm-up before the schedule; 0: none."),
      ESTRAIN_KEY(schedule.warmup_start)
          .above(0)
          .max(1)
          .only("schedule.name", schedules_but({"onecycle", "plateau"}))
          .means("Factor on the learning rate at the warm-up's start."),
  };
}

#define ESTRAIN_GROUP_KEY(field) \
  make_key<OptimizerGroup>(      \
      #field, [](auto& group) -> auto& { return group.field; })

const std::vector<SpecKey<OptimizerGroup>>& group_keys() {
  static const std::vector<SpecKey<OptimizerGroup>> keys = {
      ESTRAIN_GROUP_KEY(match).filled().must_be_given().means(
          "Glob patterns (`*`, `?`, `[abc]`) on the names of parameters, such as `*.bias`."),
      ESTRAIN_GROUP_KEY(name)
          .unset("optimizer.name")
          .choices(Codec<OptimizerKind>::words())
          .means(
              "The group's optimizer. One that differs from optimizer.name has its own defaults, also for what a group "
              "cannot set."),
      ESTRAIN_GROUP_KEY(lr).min(0).unset("optimizer.lr").means("The group's learning rate."),
      ESTRAIN_GROUP_KEY(weight_decay).min(0).unset("optimizer.weight_decay").means("The group's weight decay."),
      ESTRAIN_GROUP_KEY(momentum)
          .min(0)
          .unset("optimizer.momentum")
          .only("optimizer.name", with_momentum)
          .means("The group's momentum."),
      ESTRAIN_GROUP_KEY(betas)
          .min(0)
          .below(1)
          .lengths({2})
          .unset("optimizer.betas")
          .only("optimizer.name", with_betas)
          .means("The group's betas."),
      ESTRAIN_GROUP_KEY(eps).min(0).unset("optimizer.eps").only("optimizer.name", with_eps).means("The group's eps."),
  };
  return keys;
}

#undef ESTRAIN_GROUP_KEY

}  // namespace estrain::spec
