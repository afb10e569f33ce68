#pragma once
// [optimizer] of a job: the optimizers, with torch.optim's names and defaults, and the values of their keys. keys.cpp
// documents the keys, kernels/optimizer_rules.h the computation.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::spec {

enum class OptimizerKind { sgd, adam, adamw, rmsprop, adagrad };

// An optimizer's name in a spec, and the defaults in which optimizers differ.
struct OptimizerTraits {
  OptimizerKind kind;
  std::string_view name;
  double lr = 1e-3, weight_decay = 0, eps = 1e-8;
};

// In the order of documentation, and of the enumeration.
inline constexpr OptimizerTraits optimizers[] = {
    {OptimizerKind::sgd, "sgd"},
    {OptimizerKind::adam, "adam"},
    {.kind = OptimizerKind::adamw, .name = "adamw", .weight_decay = 1e-2},
    {.kind = OptimizerKind::rmsprop, .name = "rmsprop", .lr = 1e-2},
    {.kind = OptimizerKind::adagrad, .name = "adagrad", .lr = 1e-2, .eps = 1e-10},
};

constexpr const OptimizerTraits& traits_of(OptimizerKind kind) { return optimizers[static_cast<size_t>(kind)]; }

struct OptimizerGroup {
  std::vector<std::string> match;          // glob patterns on parameter names; the first matching group wins
  std::optional<double> lr, weight_decay;  // replace the optimizer's values
  std::optional<double> momentum;          // sgd, rmsprop

  bool operator==(const OptimizerGroup&) const = default;
};

struct OptimizerSection {
  OptimizerKind name = OptimizerKind::sgd;
  std::optional<double> lr, weight_decay, eps;  // default: the optimizer's; eps: not sgd
  double momentum = 0;                          // sgd, rmsprop
  double dampening = 0;                         // sgd
  bool nesterov = false;                        // sgd
  std::vector<double> betas = {0.9, 0.999};     // adam, adamw
  double alpha = 0.99;                          // rmsprop
  bool centered = false;                        // rmsprop
  double lr_decay = 0;                          // adagrad
  double initial_accumulator_value = 0;         // adagrad
  std::vector<OptimizerGroup> groups;           // [[optimizer.groups]]

  bool operator==(const OptimizerSection&) const = default;
};

}  // namespace estrain::spec
