#include "core/dispatch/speeds.h"

#include <algorithm>
#include <cmath>

namespace estrain::dispatch {
namespace {

constexpr double kSame = 1e-3;  // s between two moments that are one

}  // namespace

int64_t most_ests(int64_t ests, int64_t devices) { return (ests + devices - 1) / devices; }

void Speeds::observe(const std::string& type, int64_t devices, double step_seconds) {
  if (!(step_seconds > 0) || !std::isfinite(step_seconds) || devices < 1) return;
  Measured& measured = measured_[{type, devices}];
  measured.seconds = measured.times == 0 ? step_seconds : (1 - kNewest) * measured.seconds + kNewest * step_seconds;
  ++measured.times;
}

void Speeds::took(const SeenKey& key, const Seen& more, double now) {
  if (!(more.steps > 0) || !(more.seconds > 0) || std::get<1>(key) < 1) return;
  Seen& seen = seen_[key];
  seen.steps += more.steps;
  seen.seconds += more.seconds;
  const double from = now - more.seconds;
  const auto goes_on = [&](const Pace& last) {
    const double longest = std::max(kShortest, kCoarsest * (now - paces_.front().from));
    return last.key == key && std::abs(from - last.to) < kSame && last.to - last.from < longest;
  };
  if (paces_.empty() || !goes_on(paces_.back())) paces_.push_back({key, from, from, 0});
  paces_.back().to = now;
  paces_.back().steps += more.steps;
}

void Speeds::rescale(double factor) {
  mini_batch_ *= factor;
  for (auto& [key, measured] : measured_) measured.seconds *= factor;
}

double Speeds::step_seconds(const std::string& type, int64_t devices, int64_t ests) const {
  double nearest = 0, distance = 0;
  int64_t at = 0;
  for (const auto& [key, measured] : measured_) {
    if (key.first != type) continue;
    const double away = std::abs(std::log(static_cast<double>(key.second) / static_cast<double>(devices)));
    if (at != 0 && away >= distance) continue;
    nearest = measured.seconds;
    distance = away;
    at = key.second;
  }
  const auto turns = static_cast<double>(most_ests(ests, devices));
  if (at == 0) return turns * (mini_batch_ > 0 ? mini_batch_ : kUnknownMiniBatch);
  return nearest * turns / static_cast<double>(most_ests(ests, at));
}

}  // namespace estrain::dispatch
