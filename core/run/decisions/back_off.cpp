#include "core/run/decisions/back_off.h"

#include <algorithm>
#include <cmath>

namespace estrain::decisions {

Nanoseconds back_off(double first_seconds, int64_t faults) {
  const auto doublings = static_cast<int>(std::clamp<int64_t>(faults - 1, 0, 30));
  return nanoseconds(Seconds(std::min(std::ldexp(first_seconds, doublings), kLongestBackOffSeconds)));
}

}  // namespace estrain::decisions
