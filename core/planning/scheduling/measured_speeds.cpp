#include "core/planning/scheduling/measured_speeds.h"

#include <cmath>
#include <iterator>

namespace estrain::scheduling {
namespace {

constexpr double kSameSeconds = 0.01;

bool is_near(double foretold, double measured) { return std::abs(foretold / measured - 1) < kSameSeconds; }

}  // namespace

bool MeasuredSpeeds::is_foretold(const SpeedPoint& point, double compute_seconds, double step_seconds) const {
  // More devices than ever before are always news: limits on growth depend on the number.
  if (point.devices > model_.most_devices()) return false;
  const auto local = static_cast<double>(point.local);
  return is_near(model_.compute_seconds(local), compute_seconds) &&
         is_near(this->step_seconds(point.hosts, point.devices, local), step_seconds);
}

bool MeasuredSpeeds::observe(const SpeedPoint& point, double compute_seconds, double step_seconds) {
  Steps& steps = steps_[{point.hosts, point.devices}];
  if (steps.contains(point.local) || is_foretold(point, compute_seconds, step_seconds)) return false;
  steps[point.local] = step_seconds;
  model_.observe(point, compute_seconds, step_seconds);
  return true;
}

double MeasuredSpeeds::ratio(int64_t hosts, int64_t devices, const Steps::value_type& measured) const {
  return measured.second / model_.step_seconds(hosts, devices, static_cast<double>(measured.first));
}

double MeasuredSpeeds::step_seconds(int64_t hosts, int64_t devices, double local) const {
  const double foretold = model_.step_seconds(hosts, devices, local);
  const auto found = steps_.find({hosts, devices});
  if (found == steps_.end() || found->second.empty()) return foretold;
  const Steps& steps = found->second;
  const auto above = steps.lower_bound(static_cast<int64_t>(std::ceil(local)));
  if (above == steps.end()) return foretold * ratio(hosts, devices, *steps.rbegin());
  if (above == steps.begin()) return foretold * ratio(hosts, devices, *above);
  const auto below = std::prev(above);
  const auto from = static_cast<double>(below->first), to = static_cast<double>(above->first);
  const double part = (local - from) / (to - from);
  return foretold * std::lerp(ratio(hosts, devices, *below), ratio(hosts, devices, *above), part);
}

}  // namespace estrain::scheduling
