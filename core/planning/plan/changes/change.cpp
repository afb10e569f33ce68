#include "core/planning/plan/changes/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace estrain::plan {
namespace {

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

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

FallBackWatch::FallBackWatch(Plan before, double before_step_seconds, Plan now, Rules rules)
    : before_(std::move(before)), now_(std::move(now)), before_step_seconds_(before_step_seconds), rules_(rules) {
  if (!positive(now_.step_seconds) || !positive(before_step_seconds_)) {
    throw Error::make(Fault::bug, "a watch over steps of {} s after steps of {} s: both must be positive",
                      now_.step_seconds, before_step_seconds_);
  }
  if (!(0 <= rules.recovered && rules.recovered <= rules.margin) || !positive(rules.seconds) ||
      !positive(rules.longest_gap)) {
    throw Error::make(Fault::bug,
                      "fall-back rules: recovered {} must lie between 0 and the margin {}; times must be positive",
                      rules.recovered, rules.margin);
  }
}

std::optional<FallBackWatch::Judgement> FallBackWatch::observe(double step_seconds, double at) {
  if (!positive(step_seconds) || !std::isfinite(at)) return std::nullopt;
  const double seconds = elapsed(at), ratio = step_seconds / now_.step_seconds;
  if (ratio > 1 + rules_.margin) {
    count_slow(ratio, seconds);
  } else if (ratio <= 1 + rules_.recovered) {
    count_recovered(seconds);
  }
  if (decided_ || slow_seconds_ < rules_.seconds || slow_observations_ < rules_.observations) return std::nullopt;
  return decide();
}

// Returns the seconds since the previous observation; 0 if the clock is implausible.
double FallBackWatch::elapsed(double at) {
  const double since = last_ ? at - *last_ : 0;
  last_ = at;
  return since < 0 || since > rules_.longest_gap ? 0 : since;
}

void FallBackWatch::count_slow(double ratio, double seconds) {
  usual_seconds_ = 0;
  ++slow_observations_;
  slow_seconds_ += seconds;
  weighted_ratio_ += ratio * seconds;
}

void FallBackWatch::count_recovered(double seconds) {
  slow_seconds_ = weighted_ratio_ = 0;
  slow_observations_ = 0;
  usual_seconds_ += seconds;
  if (usual_seconds_ >= rules_.seconds) decided_ = false;
}

FallBackWatch::Judgement FallBackWatch::decide() {
  decided_ = true;
  Judgement decision;
  decision.slow_seconds = slow_seconds_;
  decision.measured_over_estimated = weighted_ratio_ / slow_seconds_;
  const double measured = decision.measured_over_estimated * now_.step_seconds;
  decision.fall_back = before_step_seconds_ < measured;
  decision.plan = decision.fall_back ? before_ : now_;
  decision.reason = fmt::format(
      "steps took {:.3g} s for {:.0f} s, {:.2f} times the estimate; those of the plan before "
      "took {:.3g} s: {}",
      measured, slow_seconds_, decision.measured_over_estimated, before_step_seconds_,
      decision.fall_back ? "falls back to it" : "stays, with the estimate corrected");
  return decision;
}

}  // namespace estrain::plan
