#pragma once

#include <cstdint>

#include "core/base/clock.h"

namespace estrain::decisions {

inline constexpr double kLongestBackOffSeconds = 3600;

// Returns the wait before the next attempt, after `faults` in a row: `first_seconds` after one fault, twice as long
// after each further fault, an hour at most.
Nanoseconds back_off(double first_seconds, int64_t faults);

}  // namespace estrain::decisions
