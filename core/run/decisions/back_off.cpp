#include "core/run/decisions/back_off.h"

#include <algorithm>
#include <cmath>

#include "core/base/clock.h"

namespace estrain::decisions {

int64_t back_off_ns(double first_seconds, int64_t faults) {
  const auto doublings = static_cast<int>(std::clamp<int64_t>(faults - 1, 0, 30));
  return nanoseconds(std::min(std::ldexp(first_seconds, doublings), kLongestBackOffSeconds));
}

}  // namespace estrain::decisions
