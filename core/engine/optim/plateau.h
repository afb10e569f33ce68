#pragma once
// ReduceLROnPlateau: learning rates fall when evaluations stop improving. The rates equal torch.optim.lr_scheduler's to
// the last bit. Unlike other schedules, "plateau" has a state, kept in checkpoints.

#include <span>

#include "core/job/spec/schedule_section.h"

namespace estrain::optim {

// The numbers in a checkpoint; counts are integers.
struct PlateauState {
  double best = 0;      // best metric until now; infinite before the first evaluation
  double bad = 0;       // evaluations in a row without improvement
  double cooldown = 0;  // remaining evaluations to ignore
  bool operator==(const PlateauState&) const = default;
};

PlateauState plateau_start(const spec::ScheduleSection& settings);

// Does one scheduler.step(metric). `rates`: of all parameter groups. NaN is not an improvement.
void plateau_step(const spec::ScheduleSection& settings, double metric, PlateauState& state, std::span<double> rates);

}  // namespace estrain::optim
