#include "core/engine/optim/optimizer.h"

#include <utility>

#include "core/base/error.h"

namespace estrain::optim {
namespace {

using spec::OptimizerKind;
using Slots = std::vector<std::string_view>;

// An Update is one update of a parameter.
struct Update {
  const spec::OptimizerSection& section;
  const GroupSettings& group;
  double lr;
  int64_t before;  // previous updates of the parameter
  kernels::Rounding rounding;
};

Slots momentum_slots(const spec::OptimizerSection&, const GroupSettings& group) {
  return group.momentum != 0 ? Slots{"momentum_buffer"} : Slots{};
}

Settings sgd(const Update& u) {
  return kernels::Sgd{.lr = u.lr,
                      .momentum = u.group.momentum,
                      .dampening = u.section.dampening,
                      .weight_decay = u.group.weight_decay,
                      .nesterov = u.section.nesterov,
                      .first = u.before == 0};
}

Slots adam_slots(const spec::OptimizerSection& section, const GroupSettings&) {
  return section.amsgrad ? Slots{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"} : Slots{"exp_avg", "exp_avg_sq"};
}

kernels::Adam adam_settings(const Update& u) {
  return {.lr = u.lr,
          .beta1 = u.group.beta1,
          .beta2 = u.group.beta2,
          .eps = u.group.eps,
          .weight_decay = u.group.weight_decay,
          .amsgrad = u.section.amsgrad,
          .step = u.before + 1,
          .rounding = u.rounding};
}

Settings adam(const Update& u) { return adam_settings(u); }

Settings adamw(const Update& u) {
  kernels::Adam settings = adam_settings(u);
  settings.decoupled = true;
  return settings;
}

Slots rmsprop_slots(const spec::OptimizerSection& section, const GroupSettings& group) {
  Slots slots = {"square_avg"};
  if (group.momentum > 0) slots.push_back("momentum_buffer");
  if (section.centered) slots.push_back("grad_avg");
  return slots;
}

Settings rmsprop(const Update& u) {
  return kernels::Rmsprop{.lr = u.lr,
                          .alpha = u.section.alpha,
                          .eps = u.group.eps,
                          .weight_decay = u.group.weight_decay,
                          .momentum = u.group.momentum,
                          .centered = u.section.centered,
                          .rounding = u.rounding};
}

Slots adagrad_slots(const spec::OptimizerSection&, const GroupSettings&) { return {"sum"}; }

Settings adagrad(const Update& u) {
  return kernels::Adagrad{.lr = u.lr,
                          .lr_decay = u.section.lr_decay,
                          .eps = u.group.eps,
                          .weight_decay = u.group.weight_decay,
                          .initial_accumulator_value = u.section.initial_accumulator_value,
                          .step = u.before + 1,
                          .rounding = u.rounding};
}

Slots moment_slots(const spec::OptimizerSection&, const GroupSettings&) { return {"exp_avg", "exp_avg_sq"}; }

Settings nadam(const Update& u) {
  return kernels::Nadam{.lr = u.lr,
                        .beta1 = u.group.beta1,
                        .beta2 = u.group.beta2,
                        .eps = u.group.eps,
                        .weight_decay = u.group.weight_decay,
                        .momentum_decay = u.section.momentum_decay,
                        .decoupled = u.section.decoupled_weight_decay,
                        .step = u.before + 1,
                        .rounding = u.rounding};
}

Settings radam(const Update& u) {
  return kernels::Radam{.lr = u.lr,
                        .beta1 = u.group.beta1,
                        .beta2 = u.group.beta2,
                        .eps = u.group.eps,
                        .weight_decay = u.group.weight_decay,
                        .decoupled = u.section.decoupled_weight_decay,
                        .step = u.before + 1,
                        .rounding = u.rounding};
}

Slots lion_slots(const spec::OptimizerSection&, const GroupSettings&) { return {"exp_avg"}; }

Settings lion(const Update& u) {
  return kernels::Lion{
      .lr = u.lr, .beta1 = u.group.beta1, .beta2 = u.group.beta2, .weight_decay = u.group.weight_decay};
}

// A Rule gives an optimizer's slots for a parameter, and the kernel settings of one update.
struct Rule {
  OptimizerKind kind;
  Slots (*slots)(const spec::OptimizerSection&, const GroupSettings&);
  Settings (*settings)(const Update&);
};

constexpr Rule rules[] = {
    {OptimizerKind::sgd, momentum_slots, sgd},        {OptimizerKind::adam, adam_slots, adam},
    {OptimizerKind::adamw, adam_slots, adamw},        {OptimizerKind::rmsprop, rmsprop_slots, rmsprop},
    {OptimizerKind::adagrad, adagrad_slots, adagrad}, {OptimizerKind::nadam, moment_slots, nadam},
    {OptimizerKind::radam, moment_slots, radam},      {OptimizerKind::lion, lion_slots, lion},
};

const Rule& rule_of(OptimizerKind kind) {
  for (const Rule& rule : rules)
    if (rule.kind == kind) return rule;
  throw Error(Fault::bug, "an optimizer without a rule");
}

}  // namespace

Optimizer::Optimizer(const spec::OptimizerSection& section, ParameterGroups groups, const Arithmetic& arithmetic)
    : section_(section), groups_(std::move(groups)), arithmetic_(arithmetic) {
  if (section.name == OptimizerKind::sgd && section.nesterov && (section.momentum <= 0 || section.dampening != 0)) {
    throw Error(Fault::spec, "optimizer.nesterov: needs a momentum and no dampening")
        .advise("set optimizer.momentum above 0 and remove optimizer.dampening");
  }
}

std::vector<std::string_view> Optimizer::slots(size_t parameter) const {
  return rule_of(section_.name).slots(section_, groups_.settings(parameter));
}

Settings Optimizer::settings(const GroupSettings& group, int64_t updates_before, double lr) const {
  return rule_of(section_.name)
      .settings({section_, group, lr, updates_before, {arithmetic_.square_roots, arithmetic_.as_on_cuda}});
}

kernels::OptimizerDigest Optimizer::update(size_t parameter, int64_t updates_before, double lr,
                                           const kernels::OptimizerPiece& elements) const {
  kernels::OptimizerPiece piece = elements;
  piece.portable = arithmetic_.portable;
  return std::visit([&](const auto& chosen) { return kernels::update(chosen, piece, arithmetic_.isa); },
                    settings(groups_.settings(parameter), updates_before, lr));
}

void Optimizer::update_on_device(size_t group, int64_t updates_before, double lr,
                                 std::span<const kernels::UpdatePiece> pieces, const float* gradient_factor,
                                 const kernels::DeviceQueue& queue) const {
  std::visit([&](const auto& chosen) { queue.updates->update(chosen, pieces, gradient_factor, queue); },
             settings(groups_.groups[group], updates_before, lr));
}

}  // namespace estrain::optim
