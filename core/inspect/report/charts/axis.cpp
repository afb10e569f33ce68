#include "core/inspect/report/charts/axis.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace estrain::report {
namespace {

// Returns 1, 2 or 5 times a power of ten: the smallest with at most `most` multiples within `length`.
double round_distance(double length, int most) {
  const double least = length / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

}  // namespace

Axis Axis::linear(double low, double high) {
  if (high - low > 1e-12 * std::max(std::abs(low), std::abs(high))) return {low, high, false};
  const double room = low == 0 ? 1 : std::abs(low) * 0.1;
  return {low - room, high + room, false};
}

Axis Axis::for_values(double low, double high) {
  if (low > 0 && high / low > 50 && std::isfinite(high / low)) return {low, high, true};
  return linear(low, high);
}

double Axis::at(double value) const {
  const double place =
      logarithmic_ ? std::log(std::max(value, low_) / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return std::clamp(place, 0.0, 1.0);
}

std::vector<double> Axis::time_ticks(int most) const {
  constexpr double minute = 60, hour = 3600, day = 86400;
  constexpr double round[] = {1,      2,          5,          10,          15,          30,
                              minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
                              hour,   2 * hour,   3 * hour,   6 * hour,    12 * hour};
  const auto large_enough = std::ranges::find_if(round, [&](double distance) { return distance * most >= high_; });
  double distance = day * std::max(1.0, round_distance(high_ / day, most));
  if (large_enough != std::end(round)) distance = *large_enough;
  if (high_ < most) distance = round_distance(high_, most);
  std::vector<double> found;
  for (double i = 0; i * distance <= high_ && found.size() <= static_cast<size_t>(most); ++i)
    found.push_back(i * distance);
  return found;
}

std::vector<double> Axis::ticks(int most) const {
  std::vector<double> found;
  if (logarithmic_) {
    const double first = std::ceil(std::log10(low_) - 1e-9), last = std::floor(std::log10(high_) + 1e-9);
    const double stride = std::max(1.0, std::ceil((last - first + 1) / most));
    for (double power = first; power <= last; power += stride) found.push_back(std::pow(10, power));
    return found;
  }
  const double distance = round_distance(high_ - low_, most);
  const double first = std::ceil(low_ / distance - 1e-9), last = std::floor(high_ / distance + 1e-9);
  for (double i = first; i <= last && found.size() <= static_cast<size_t>(most); ++i)
    found.push_back(i * distance + 0.0);  // no -0
  return found;
}

}  // namespace estrain::report
