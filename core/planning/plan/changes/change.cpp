#include "core/planning/plan/changes/change.h"

#include <fmt/format.h>

#include <algorithm>

namespace estrain::plan {

ChangeWorth weigh(const Change& change) {
  const double saved = change.step_seconds_now - change.step_seconds_then;
  const double share = change.step_seconds_now > 0 ? saved / change.step_seconds_now : 0;
  ChangeWorth verdict;
  verdict.gain_seconds = saved * static_cast<double>(std::max<int64_t>(0, change.steps_left));
  if (share < kLeastGain) {
    verdict.reason = share <= 0 ? "steps would not get shorter"
                                : fmt::format("steps would get shorter by {:.1f} % only", 100 * share);
    return verdict;
  }
  if (verdict.gain_seconds < kGainOverCost * change.cost_seconds) {
    verdict.reason = fmt::format("it would save {:.1f} s in the {} steps left, and cost {:.1f} s", verdict.gain_seconds,
                                 change.steps_left, change.cost_seconds);
    return verdict;
  }
  verdict.worth = true;
  verdict.reason = fmt::format("steps get shorter by {:.0f} %: {:.1f} s less in the {} steps left", 100 * share,
                               verdict.gain_seconds, change.steps_left);
  return verdict;
}

bool GainWatch::observe(double step_seconds_now, double step_seconds_best) {
  const bool gains = step_seconds_now > 0 && step_seconds_best < (1 - kGain) * step_seconds_now;
  windows_ = gains ? windows_ + 1 : std::max(0, windows_ - kMiss);
  if (windows_ < needed_) return false;
  windows_ = 0;
  return true;
}

}  // namespace estrain::plan
