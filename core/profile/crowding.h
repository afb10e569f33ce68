#pragma once
// How many times as long a mini-batch takes where several workers compute at a time.

#include <cstdint>
#include <vector>

#include "core/profile/capability.h"

namespace estrain::profile {

// Each worker's part of the cores, over what it could use: workers that they do not suffice for take turns. At least 1.
double turns(int64_t workers, int64_t threads, int64_t cores);

// crowding[w - 1] for w = 1 … workers, as plan::Job takes it: the mean over the kinds that were measured both with w
// and with fewest workers; between numbers that were measured, by proportion. Beyond them, and where nobody has
// measured, workers that the cores no longer suffice for take turns: max(1, w threads / cores) times what it is up to
// there.
std::vector<double> crowding(const std::vector<const Capability*>& kinds, int64_t workers, int64_t threads,
                             int64_t cores);

}  // namespace estrain::profile
