#include "core/dispatch/speeds.h"

#include <algorithm>
#include <cmath>

namespace estrain::dispatch {
namespace {

int64_t most_ests(int64_t ests, int64_t devices) { return (ests + devices - 1) / devices; }

}  // namespace

void Speeds::observe(const std::string& type, int64_t devices, double step_seconds) {
  if (!(step_seconds > 0) || !std::isfinite(step_seconds) || devices < 1) return;
  Measured& measured = measured_[{type, devices}];
  measured.seconds = measured.times == 0 ? step_seconds : (1 - kNewest) * measured.seconds + kNewest * step_seconds;
  ++measured.times;
}

void Speeds::took(const std::string& type, int64_t devices, int64_t steps, double seconds) {
  if (steps < 1 || !(seconds > 0) || devices < 1) return;
  Measured& measured = measured_[{type, devices}];
  measured.steps += steps;
  measured.whole += seconds;
}

double Speeds::reckoned(const std::string& type, int64_t devices, int64_t ests, bool seen) const {
  double nearest = 0, distance = 0;
  int64_t at = 0;
  for (const auto& [key, measured] : measured_) {
    if (key.first != type || (seen ? measured.steps : measured.times) == 0) continue;
    const double away = std::abs(std::log(static_cast<double>(key.second) / static_cast<double>(devices)));
    if (at != 0 && away >= distance) continue;
    nearest = seen ? measured.whole / static_cast<double>(measured.steps) : measured.seconds;
    distance = away;
    at = key.second;
  }
  const auto turns = static_cast<double>(most_ests(ests, devices));
  if (at == 0)
    return seen ? reckoned(type, devices, ests, false) : turns * (mini_batch_ > 0 ? mini_batch_ : kUnknownMiniBatch);
  return nearest * turns / static_cast<double>(most_ests(ests, at));
}

double Speeds::step_seconds(const std::string& type, int64_t devices, int64_t ests) const {
  return reckoned(type, devices, ests, false);
}

double Speeds::seen_step_seconds(const std::string& type, int64_t devices, int64_t ests) const {
  return reckoned(type, devices, ests, true);
}

}  // namespace estrain::dispatch
