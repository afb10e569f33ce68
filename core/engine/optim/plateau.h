#pragma once
// ReduceLROnPlateau: learning rates that fall when evaluations stop improving, equal to torch.optim.lr_scheduler's to
// the last bit. Unlike the other schedules it has a state, which checkpoints hold.

#include <span>

#include "core/job/spec/schedule_section.h"

namespace estrain::optim {

// The numbers in a checkpoint; counts are integers.
struct PlateauState {
  double best = 0;      // best metric so far; infinite before the first evaluation
  double bad = 0;       // evaluations in a row without improvement
  double cooldown = 0;  // remaining evaluations that do not count
  bool operator==(const PlateauState&) const = default;
};

PlateauState plateau_start(const spec::ScheduleSection& settings);

// One scheduler.step(metric). `rates`: of all parameter groups. NaN is not an improvement.
void plateau_step(const spec::ScheduleSection& settings, double metric, PlateauState& state, std::span<double> rates);

}  // namespace estrain::optim
