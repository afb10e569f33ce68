#pragma once
// The time of writing a record, for display. Internal to this folder.

#include <ctime>

namespace estrain::record {

// Seconds since 1970.
inline double wall_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace estrain::record
