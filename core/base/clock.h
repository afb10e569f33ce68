#pragma once
// Monotonic time for durations, wall time for logs. Neither ever reaches the arithmetic of a job.

#include <cstdint>
#include <string>

namespace estrain {

int64_t monotonic_ns();                          // CLOCK_MONOTONIC: comparable between processes of one host
int64_t unix_seconds();                          // seconds since 1970
double wall_seconds();                           // with their fraction, for comparing the clocks of hosts
std::string utc_timestamp();                     // "2031-05-04T12:30:01.123Z"
std::string utc_timestamp(double unix_seconds);  // of a moment since 1970

// Limits the result to +-2^62 (146 years): adding monotonic_ns() does not overflow; NaN gives the maximum.
int64_t nanoseconds(double seconds);

inline double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace estrain
