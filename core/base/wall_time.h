#pragma once
// Seconds since 1970 with their fraction, for display and for comparing the clocks of hosts.

#include <ctime>

namespace estrain {

inline double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace estrain
