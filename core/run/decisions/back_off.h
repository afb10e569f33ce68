#pragma once

#include <cstdint>

namespace estrain::decisions {

inline constexpr double kLongestBackOffSeconds = 3600;

// How long to wait before the next attempt, after `faults` in a row: `first_seconds` after one, twice as long after
// each further one, an hour at most.
int64_t back_off_ns(double first_seconds, int64_t faults);

}  // namespace estrain::decisions
