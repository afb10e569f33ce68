#pragma once
// Fits the coefficients of plan::Exchange to the measurements: non-negative least squares.

#include <vector>

#include "core/planning/plan/plan.h"
#include "core/planning/profile/capability.h"

namespace estrain::profile {

// Exact: tries every subset of the four coefficients as the non-zero coefficients. A sample's weight is its number of
// measurements (at most Estimate::kMemory; one half if scaled). If the samples do not determine the coefficients, for
// example if all have the same number of workers, the smallest squares spread the cost evenly, and nothing grows
// without bound outside the measurements. Without samples the exchange costs nothing.
plan::Exchange fit_exchange(const std::vector<ExchangeSample>& samples);

}  // namespace estrain::profile
