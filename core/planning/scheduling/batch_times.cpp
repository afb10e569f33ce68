#include "core/planning/scheduling/batch_times.h"

#include <algorithm>
#include <cmath>

namespace estrain::scheduling {

void BatchTimes::observe(int64_t batch, double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds) || batch < 1) return;
  Measured& measured = measured_[batch];
  ++measured.times;
  measured.seconds += (seconds - measured.seconds) / static_cast<double>(std::min(measured.times, kTimes));
}

double BatchTimes::seconds(int64_t batch) const {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [size, measured] : measured_) {
    const auto samples = static_cast<double>(size);
    n += 1;
    x += samples;
    y += measured.seconds;
    xx += samples * samples;
    xy += samples * measured.seconds;
  }
  if (n == 0) return 0;
  const auto at = static_cast<double>(batch);
  const double spread = n * xx - x * x;
  if (spread <= 0) return y / x * at;
  const double each = (n * xy - x * y) / spread, fixed = (y - each * x) / n;
  if (each < 0) return y / n;
  if (fixed < 0) return xy / xx * at;
  return fixed + each * at;
}

}  // namespace estrain::scheduling
