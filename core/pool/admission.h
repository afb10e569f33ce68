#pragma once
// Gangs admitted in a given order: jobs that are admitted and hold devices keep them, all others hold none.

#include <cstddef>
#include <vector>

#include "core/pool/policy.h"

namespace estrain::pool {

// Goes through `order` (indices into the jobs of the view) and admits each job whose gang still fits into the number of
// devices; smaller ones may overtake. New ones take devices from the hosts with most free.
Decision admit_gangs(const View& view, const std::vector<size_t>& order);

}  // namespace estrain::pool
