#pragma once
// [schedule] of a job: the schedules of the learning rate, and the values of their keys. keys.cpp documents the keys,
// engine/optim/schedule.cpp has the computation.

#include <cstdint>
#include <string_view>
#include <vector>

namespace estrain::spec {

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
