#pragma once
// Admits gangs in a given order: admitted jobs with devices keep their devices, and the rest hold no devices.

#include <cstddef>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

// Goes through `order` (indices into the view's jobs) and admits each job whose gang still fits into the number of
// devices; smaller jobs may overtake. New jobs take devices from the hosts with the most free devices.
Decision admit_gangs(const View& view, const std::vector<size_t>& order);

}  // namespace estrain::scheduling
