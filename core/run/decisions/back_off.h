#pragma once

#include <cstdint>

namespace estrain::decisions {

inline constexpr double kLongestBackOffSeconds = 3600;

// Returns the wait before the next attempt, after `faults` in a row: `first_seconds` after one fault, twice as long
// after each further fault, an hour at most.
int64_t back_off_ns(double first_seconds, int64_t faults);

}  // namespace estrain::decisions
