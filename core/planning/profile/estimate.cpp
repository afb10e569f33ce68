#include "core/planning/profile/estimate.h"

#include <algorithm>
#include <cmath>

namespace estrain::profile {

bool Estimate::observe(const Measurement& measurement, int64_t now, double floor) {
  const double off = std::abs(measurement.seconds - seconds);
  const bool known = samples > 0;
  const bool wrong = known && off > kMargin * std::max(seconds, floor);
  if (!known || wrong || age(now) > kStale) {
    *this = {measurement.seconds, measurement.spread, 1, now};
    return wrong;
  }
  const double weight = 1.0 / static_cast<double>(std::min(samples + 1, kMemory));
  const double seen = std::max(measurement.spread, seconds > 0 ? off / seconds : 0);
  spread += weight * (seen - spread);
  seconds += weight * (measurement.seconds - seconds);
  samples += 1;
  measured = now;
  return false;
}

void Estimate::scale(double factor) {
  seconds *= factor;
  samples = 0;
}

}  // namespace estrain::profile
