#include "core/engine/optim/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/job/spec/defaults.h"

namespace estrain::optim {
namespace {

using spec::OptimizerKind;
using Slots = std::vector<std::string_view>;

constexpr size_t kMostNamed = 8;  // parameters in a message

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
                      .nesterov = spec::nesterov(u.section),
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

// A Rule gives the slots for a parameter, and the kernel settings of one update, of an optimizer that updates pieces.
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

WholeSettings lamb(const Update& u) {
  return Lamb{.lr = u.lr,
              .beta1 = u.group.beta1,
              .beta2 = u.group.beta2,
              .eps = u.group.eps,
              .weight_decay = u.group.weight_decay,
              .trust_clip = u.section.trust_clip,
              .always_adapt = u.section.always_adapt,
              .step = u.before + 1};
}

WholeSettings adafactor(const Update& u) {
  return Adafactor{.lr = u.lr,
                   .beta2_decay = u.section.beta2_decay,
                   .eps1 = u.group.eps,
                   .eps2 = u.section.eps2,
                   .d = u.section.d,
                   .weight_decay = u.group.weight_decay,
                   .step = u.before + 1};
}

WholeSettings muon(const Update& u) {
  return Muon{.lr = u.lr,
              .momentum = u.group.momentum,
              .eps = u.group.eps,
              .weight_decay = u.group.weight_decay,
              .nesterov = spec::nesterov(u.section),
              .coefficients = u.section.ns_coefficients,
              .iterations = u.section.ns_steps,
              .adjust = u.section.adjust_lr_fn};
}

using Sizes = std::vector<int64_t>;

std::vector<SlotShape> whole_moment_slots(const Sizes& sizes) { return {{"exp_avg", sizes}, {"exp_avg_sq", sizes}}; }

std::vector<SlotShape> adafactor_slots(const Sizes& sizes) {
  if (sizes.size() < 2) return {{"variance", sizes}};
  Sizes rows = sizes, columns = sizes;
  rows.back() = columns[sizes.size() - 2] = 1;
  return {{"row_var", rows}, {"col_var", columns}};
}

std::vector<SlotShape> muon_slots(const Sizes& sizes) { return {{"momentum_buffer", sizes}}; }

// A WholeRule is the Rule of an optimizer that updates whole parameters.
struct WholeRule {
  OptimizerKind kind;
  std::vector<SlotShape> (*slots)(const Sizes&);
  WholeSettings (*settings)(const Update&);
};

constexpr WholeRule whole_rules[] = {{OptimizerKind::lamb, whole_moment_slots, lamb},
                                     {OptimizerKind::adafactor, adafactor_slots, adafactor},
                                     {OptimizerKind::muon, muon_slots, muon}};

// Returns null if the optimizer updates pieces.
const WholeRule* whole_rule_of(OptimizerKind kind) {
  const auto* const found = std::ranges::find(whole_rules, kind, &WholeRule::kind);
  return found == std::end(whole_rules) ? nullptr : found;
}

const Rule& rule_of(OptimizerKind kind) {
  for (const Rule& rule : rules)
    if (rule.kind == kind) return rule;
  throw Error(Fault::bug, "an optimizer without a rule for pieces");
}

}  // namespace

Optimizer::Optimizer(const spec::OptimizerSection& section, ParameterGroups groups, const Arithmetic& arithmetic)
    : section_(section), groups_(std::move(groups)), arithmetic_(arithmetic) {
  for (const spec::OptimizerTraits& traits : spec::optimizers) with_defaults_.emplace_back().name = traits.kind;
  const bool is_nesterov = section.name == OptimizerKind::sgd && spec::nesterov(section);
  if (is_nesterov && (spec::momentum(section) <= 0 || section.dampening != 0)) {
    throw Error(Fault::spec, "optimizer.nesterov: needs a momentum and no dampening")
        .advise("set optimizer.momentum above 0 and remove optimizer.dampening");
  }
}

const spec::OptimizerSection& Optimizer::section_of(const GroupSettings& group) const {
  return group.kind == section_.name ? section_ : with_defaults_[static_cast<size_t>(group.kind)];
}

std::vector<SlotShape> Optimizer::slots(size_t parameter, const std::vector<int64_t>& sizes) const {
  const GroupSettings& group = groups_.settings(parameter);
  if (const WholeRule* whole = whole_rule_of(group.kind)) return whole->slots(sizes);
  std::vector<SlotShape> slots;
  for (const std::string_view name : rule_of(group.kind).slots(section_of(group), group))
    slots.push_back({name, sizes});
  return slots;
}

void Optimizer::require_fit(const std::vector<std::string>& names,
                            const std::vector<std::vector<int64_t>>& sizes) const {
  std::vector<std::string> others;
  for (size_t i = 0; i < names.size(); ++i) {
    if (groups_.settings(i).kind == OptimizerKind::muon && sizes[i].size() != 2)
      others.push_back(fmt::format("{} [{}]", names[i], fmt::join(sizes[i], ", ")));
  }
  if (others.empty()) return;
  const size_t count = others.size();
  if (count > kMostNamed) others.resize(kMostNamed);
  throw Error::make(
      Fault::spec,
      "optimizer.name: muon takes parameters with two dimensions, and {} of the model {} another number: {}{}", count,
      count == 1 ? "has" : "have", fmt::join(others, ", "), count > kMostNamed ? ", …" : "")
      .advise(
          "give them another optimizer, and embeddings and the output layer, too, as Muon's authors do: "
          "[[optimizer.groups]] with match = [\"*.bias\", …], name = \"adamw\" and a learning rate of its own");
}

bool Optimizer::updates_whole(size_t parameter) const {
  return whole_rule_of(groups_.settings(parameter).kind) != nullptr;
}

bool Optimizer::updates_some_whole() const {
  return std::ranges::any_of(groups_.group_of,
                             [this](size_t group) { return whole_rule_of(groups_.groups[group].kind) != nullptr; });
}

WholeSettings Optimizer::whole_settings(size_t parameter, int64_t updates_before, double lr) const {
  const GroupSettings& group = groups_.settings(parameter);
  const WholeRule* const rule = whole_rule_of(group.kind);
  if (rule == nullptr) throw Error(Fault::bug, "an optimizer without a rule for whole parameters");
  WholeSettings settings = rule->settings({section_of(group), group, lr, updates_before, {}});
  // Where the portable kernels compute, there is no bfloat16. An update of a run with GPUs is LibTorch's, unless the
  // kernels are the portable ones.
  if (auto* chosen = std::get_if<Muon>(&settings))
    chosen->in_bfloat16 = !arithmetic_.portable || arithmetic_.as_on_cuda;
  return settings;
}

Settings Optimizer::settings(const GroupSettings& group, int64_t updates_before, double lr) const {
  return rule_of(group.kind)
      .settings({section_of(group), group, lr, updates_before, {arithmetic_.square_roots, arithmetic_.as_on_cuda}});
}

kernels::OptimizerDigest Optimizer::update(size_t parameter, int64_t updates_before, double lr,
                                           const kernels::OptimizerPiece& elements) const {
  kernels::OptimizerPiece piece = elements;
  piece.portable = arithmetic_.portable;
  return std::visit([&](const auto& chosen) { return kernels::update(chosen, piece, arithmetic_.isa); },
                    settings(groups_.settings(parameter), updates_before, lr));
}

bool Optimizer::rests_on_zeros(size_t parameter, int64_t updates_before, double lr) const {
  const auto rests = [](const auto& chosen) {
    using Chosen = std::decay_t<decltype(chosen)>;
    if constexpr (std::is_same_v<Chosen, kernels::Sgd>) return chosen.momentum == 0 && chosen.weight_decay == 0;
    // The first update sets the slot; later, the root of a slot of 0 is not divided by.
    if constexpr (std::is_same_v<Chosen, kernels::Adagrad>)
      return chosen.step > 1 && chosen.weight_decay == 0 && static_cast<float>(chosen.eps) > 0;
    return false;
  };
  // With a rate out of float's range, a gradient of zero gives NaN.
  return lr >= 0 && lr < 1e30 && std::visit(rests, settings(groups_.settings(parameter), updates_before, lr));
}

void Optimizer::update_on_device(size_t group, int64_t updates_before, double lr,
                                 std::span<const kernels::UpdatePiece> pieces, const float* gradient_factor,
                                 const kernels::DeviceQueue& queue) const {
  std::visit([&](const auto& chosen) { queue.updates->update(chosen, pieces, gradient_factor, queue); },
             settings(groups_.groups[group], updates_before, lr));
}

}  // namespace estrain::optim
