#pragma once
// The coefficients of plan::Exchange that explain best what was measured: least squares, none below zero.

#include <vector>

#include "core/plan/plan.h"
#include "core/profile/capability.h"

namespace estrain::profile {

// Exact for these four coefficients: every set of them that is not zero is tried. Samples count by their measurements
// (at most Estimate::kMemory; half a one if scaled). What the samples leave open, as where all have one number of
// workers, is shared out evenly over the coefficients that would explain it (the smallest squares), so that nothing
// grows without bound where nobody has measured. No samples: an exchange that costs nothing.
plan::Exchange fit_exchange(const std::vector<ExchangeSample>& samples);

}  // namespace estrain::profile
