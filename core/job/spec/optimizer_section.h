#pragma once
// [optimizer] and [schedule] of a job: the optimizers, with torch.optim's names and defaults, the schedules of the
// learning rate, and the values of their keys. keys.cpp documents the keys; kernels/optimizer_rules.h,
// engine/train/shared/whole_update.h and engine/optim/schedule.cpp have the computation.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::spec {

enum class OptimizerKind { sgd, adam, adamw, rmsprop, adagrad, nadam, radam, lion, lamb, adafactor, muon };
enum class AdjustLr { original, match_rms_adamw };  // of muon

// An optimizer's name in a spec, and the defaults in which optimizers differ.
struct OptimizerTraits {
  OptimizerKind kind;
  std::string_view name;
  double lr = 1e-3, weight_decay = 0, eps = 1e-8;
  double beta1 = 0.9, beta2 = 0.999;
  double momentum = 0;
  bool nesterov = false;
};

// In the order of documentation, and of the enumeration.
inline constexpr OptimizerTraits optimizers[] = {
    {OptimizerKind::sgd, "sgd"},
    {OptimizerKind::adam, "adam"},
    {.kind = OptimizerKind::adamw, .name = "adamw", .weight_decay = 1e-2},
    {.kind = OptimizerKind::rmsprop, .name = "rmsprop", .lr = 1e-2},
    {.kind = OptimizerKind::adagrad, .name = "adagrad", .lr = 1e-2, .eps = 1e-10},
    {.kind = OptimizerKind::nadam, .name = "nadam", .lr = 2e-3},
    {.kind = OptimizerKind::radam, .name = "radam"},
    {.kind = OptimizerKind::lion, .name = "lion", .lr = 1e-4, .beta2 = 0.99},
    {.kind = OptimizerKind::lamb, .name = "lamb", .weight_decay = 1e-2, .eps = 1e-6},
    // the eps of float32
    {.kind = OptimizerKind::adafactor, .name = "adafactor", .lr = 1e-2, .eps = 1.1920928955078125e-07},
    {.kind = OptimizerKind::muon, .name = "muon", .weight_decay = 0.1, .eps = 1e-7, .momentum = 0.95, .nesterov = true},
};

constexpr const OptimizerTraits& traits_of(OptimizerKind kind) { return optimizers[static_cast<size_t>(kind)]; }

struct OptimizerGroup {
  std::vector<std::string> match;                 // glob patterns on parameter names; the first matching group wins
  std::optional<double> lr, weight_decay;         // replace the optimizer's values
  std::optional<double> momentum;                 // sgd, rmsprop, muon
  std::optional<std::vector<double>> betas = {};  // adam, adamw, nadam, radam, lion, lamb
  std::optional<double> eps = {};                 // not sgd, lion
  std::optional<OptimizerKind> name = {};         // another optimizer, with its own defaults

  bool operator==(const OptimizerGroup&) const = default;
};

struct OptimizerSection {
  OptimizerKind name = OptimizerKind::sgd;
  std::optional<double> lr, weight_decay, eps;  // default: the optimizer's; eps: not sgd, lion
  std::optional<double> momentum;               // default: the optimizer's; sgd, rmsprop, muon
  double dampening = 0;                         // sgd
  std::optional<bool> nesterov;                 // default: the optimizer's; sgd, muon
  std::optional<std::vector<double>> betas;     // default: the optimizer's; adam, adamw, nadam, radam, lion, lamb
  bool amsgrad = false;                         // adam, adamw
  double momentum_decay = 4e-3;                 // nadam
  bool decoupled_weight_decay = false;          // nadam, radam
  double alpha = 0.99;                          // rmsprop
  bool centered = false;                        // rmsprop
  double lr_decay = 0;                          // adagrad
  double initial_accumulator_value = 0;         // adagrad
  double layer_decay = 1;                       // factor on the rate of each layer further from the output
  std::vector<std::string> layers;     // for layer_decay: patterns on names, from the input on; empty: by number
  std::vector<OptimizerGroup> groups;  // [[optimizer.groups]]
  bool trust_clip = false;             // lamb
  bool always_adapt = false;           // lamb
  double beta2_decay = -0.8;           // adafactor
  double eps2 = 1e-3;                  // adafactor
  double d = 1;                        // adafactor
  std::vector<double> ns_coefficients = {3.4445, -4.7750, 2.0315};  // muon
  int64_t ns_steps = 5;                                             // muon
  AdjustLr adjust_lr_fn = AdjustLr::original;                       // muon

  bool operator==(const OptimizerSection&) const = default;
};

enum class ScheduleKind {
  constant,
  step,
  multistep,
  cosine,
  linear,
  polynomial,
  onecycle,
  plateau,
  exponential,
  restarts,
  inverse_sqrt,
  wsd,
  table
};
enum class ScheduleUnit { step, epoch };
enum class Anneal { cosine, linear };
enum class Decay { linear, cosine, one_minus_sqrt };
enum class Between { constant, linear };  // two points of a table
enum class Metric { loss, accuracy };     // falling, rising: better
enum class ThresholdMode { relative, absolute };

// A schedule's name in a spec, in the order of documentation.
struct ScheduleTraits {
  ScheduleKind kind;
  std::string_view name;
};
inline constexpr ScheduleTraits schedules[] = {
    {ScheduleKind::constant, "constant"},
    {ScheduleKind::step, "step"},
    {ScheduleKind::multistep, "multistep"},
    {ScheduleKind::cosine, "cosine"},
    {ScheduleKind::linear, "linear"},
    {ScheduleKind::polynomial, "polynomial"},
    {ScheduleKind::onecycle, "onecycle"},
    {ScheduleKind::plateau, "plateau"},
    {ScheduleKind::exponential, "exponential"},
    {ScheduleKind::restarts, "restarts"},
    {ScheduleKind::inverse_sqrt, "inverse_sqrt"},
    {ScheduleKind::wsd, "wsd"},
    {ScheduleKind::table, "table"},
};

struct ScheduleSection {
  ScheduleKind name = ScheduleKind::constant;
  ScheduleUnit unit = ScheduleUnit::epoch;  // when the schedule advances; plateau: with every evaluation
  int64_t period =
      30;  // step: StepLR's step_size. cosine: T_max. linear, polynomial: total_iters. onecycle: total_steps. restarts:
           // T_0. inverse_sqrt: units after which the rate is lower by the root of 2. wsd: units of constant rate
  double gamma = 0.1;                                      // step, multistep, exponential: factor of a drop
  std::vector<int64_t> milestones = {};                    // multistep
  double eta_min = 0;                                      // cosine, restarts: lowest lr
  int64_t period_factor = 1;                               // restarts: T_mult
  int64_t decay = 10;                                      // wsd: units of decay after the period
  Decay decay_shape = Decay::linear;                       // wsd
  double min_factor = 0;                                   // wsd: factor on the lr after the decay
  std::vector<int64_t> points = {};                        // table: units, rising from 0
  std::vector<double> factors = {};                        // table: on the lr, from each point on
  Between between = Between::constant;                     // table
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
