#include "core/engine/optim/plateau.h"

#include <algorithm>
#include <limits>

namespace estrain::optim {
namespace {

using spec::ScheduleSection;

constexpr double kLeastChange = 1e-8;  // torch's eps: a smaller drop is ignored

bool must_rise(const ScheduleSection& s) { return s.metric == spec::Metric::accuracy; }

bool is_better(const ScheduleSection& s, double metric, double best) {
  const bool relative = s.threshold_mode == spec::ThresholdMode::relative;
  if (must_rise(s)) return metric > (relative ? best * (s.threshold + 1.0) : best + s.threshold);
  return metric < (relative ? best * (1.0 - s.threshold) : best - s.threshold);
}

void reduce(const ScheduleSection& s, std::span<double> rates) {
  for (double& rate : rates) {
    const double lower = std::max(rate * s.factor, s.min_lr);
    if (rate - lower > kLeastChange) rate = lower;
  }
}

}  // namespace

PlateauState plateau_start(const ScheduleSection& settings) {
  constexpr double worst = std::numeric_limits<double>::infinity();
  return {.best = must_rise(settings) ? -worst : worst};
}

void plateau_step(const ScheduleSection& settings, double metric, PlateauState& state, std::span<double> rates) {
  if (is_better(settings, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
  } else {
    state.bad += 1;
  }
  if (state.cooldown > 0) {
    state.cooldown -= 1;
    state.bad = 0;
  }
  if (state.bad <= static_cast<double>(settings.patience)) return;
  reduce(settings, rates);
  state.cooldown = static_cast<double>(settings.cooldown);
  state.bad = 0;
}

}  // namespace estrain::optim
