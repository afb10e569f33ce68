#pragma once
// [optimizer] and [schedule] of a job: the optimizers, with torch.optim's names and defaults, the schedules of the
// learning rate, and the values of their keys. keys.cpp documents the keys; kernels/optimizer_rules.h and
// engine/optim/schedule.cpp have the computation.

#include <cstdint>
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

enum class ScheduleKind { constant, step, multistep, cosine, linear, polynomial, onecycle, plateau };
enum class ScheduleUnit { step, epoch };
enum class Anneal { cosine, linear };
enum class Metric { loss, accuracy };  // falling, rising: better
enum class ThresholdMode { relative, absolute };

// A schedule's name in a spec, in the order of documentation.
struct ScheduleTraits {
  ScheduleKind kind;
  std::string_view name;
};
inline constexpr ScheduleTraits schedules[] = {
    {ScheduleKind::constant, "constant"}, {ScheduleKind::step, "step"},       {ScheduleKind::multistep, "multistep"},
    {ScheduleKind::cosine, "cosine"},     {ScheduleKind::linear, "linear"},   {ScheduleKind::polynomial, "polynomial"},
    {ScheduleKind::onecycle, "onecycle"}, {ScheduleKind::plateau, "plateau"},
};

struct ScheduleSection {
  ScheduleKind name = ScheduleKind::constant;
  ScheduleUnit unit = ScheduleUnit::epoch;  // when the schedule advances; plateau: with every evaluation
  int64_t period =
      30;  // step: StepLR's step_size. cosine: T_max. linear, polynomial: total_iters. onecycle: total_steps
  double gamma = 0.1;                                      // step, multistep: factor of a drop
  std::vector<int64_t> milestones = {};                    // multistep
  double eta_min = 0;                                      // cosine: lowest lr
  double start_factor = 1.0 / 3, end_factor = 1;           // linear
  double power = 1;                                        // polynomial
  double pct_start = 0.3;                                  // onecycle: fraction of the period with rising lr
  Anneal anneal_strategy = Anneal::cosine;                 // onecycle
  double div_factor = 25, final_div_factor = 1e4;          // onecycle
  bool three_phase = false;                                // onecycle
  Metric metric = Metric::loss;                            // plateau: the metric that must improve
  double factor = 0.1;                                     // plateau
  int64_t patience = 10, cooldown = 0;                     // plateau, in evaluations
  double threshold = 1e-4;                                 // plateau
  ThresholdMode threshold_mode = ThresholdMode::relative;  // plateau
  double min_lr = 0;                                       // plateau
  int64_t warmup = 0;         // units of linear warm-up before the schedule (SequentialLR of LinearLR)
  double warmup_start = 0.1;  // LinearLR's start_factor of the warm-up

  bool operator==(const ScheduleSection&) const = default;
};

}  // namespace estrain::spec
