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

double Speeds::step_seconds(const std::string& type, int64_t devices, int64_t ests) const {
  const Measured* nearest = nullptr;
  double distance = 0;
  int64_t at = 0;
  for (const auto& [key, measured] : measured_) {
    if (key.first != type) continue;
    const double away = std::abs(std::log(static_cast<double>(key.second) / static_cast<double>(devices)));
    if (nearest == nullptr || away < distance) nearest = &measured, distance = away, at = key.second;
  }
  const auto turns = static_cast<double>(most_ests(ests, devices));
  if (nearest == nullptr) return turns * (mini_batch_ > 0 ? mini_batch_ : kUnknownMiniBatch);
  return nearest->seconds * turns / static_cast<double>(most_ests(ests, at));
}

}  // namespace estrain::dispatch
