#pragma once
// The factor by which a mini-batch takes longer while several workers compute.

#include <cstdint>
#include <vector>

#include "core/planning/profile/capability.h"

namespace estrain::profile {

// Threads per available core: workers take turns if there are too few cores. At least 1.
double turns(int64_t workers, int64_t threads, int64_t cores);

// Returns crowding[w - 1] for w = 1 … workers, as in plan::PlannedJob: the mean over the kinds measured both with w
// workers and with one worker, interpolated linearly between measured numbers. Beyond the measured numbers, and
// without measurements, workers take turns on the cores: the last factor grows in proportion to max(1, w threads /
// cores).
std::vector<double> crowding(const std::vector<const Capability*>& kinds, int64_t workers, int64_t threads,
                             int64_t cores);

}  // namespace estrain::profile
