#pragma once
// ReduceLROnPlateau: learning rates that fall when evaluations get no better, as torch.optim.lr_scheduler does it, to
// the last bit. Unlike the other schedules it has a state, which the checkpoints keep.

#include <span>

#include "core/spec/schedule_section.h"

namespace estrain::optim {

// Numbers as a checkpoint holds them; counts are whole.
struct PlateauState {
  double best = 0;      // metric so far; infinite before the first evaluation
  double bad = 0;       // evaluations in a row that were no better
  double cooldown = 0;  // evaluations that do not count, yet to come
  bool operator==(const PlateauState&) const = default;
};

PlateauState plateau_start(const spec::ScheduleSection& settings);

// One scheduler.step(metric). `rates`: of all parameter groups. A metric that is NaN is no better.
void plateau_step(const spec::ScheduleSection& settings, double metric, PlateauState& state, std::span<double> rates);

}  // namespace estrain::optim
