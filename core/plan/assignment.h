#pragma once
// Assigns ESTs to workers: always contiguous ranges in worker order.

#include <vector>

#include "core/base/ids.h"

namespace estrain::plan {

// Ranges of nearly equal size: the first `ests mod workers` workers host one EST more. Throws Fault::infeasible unless
// 1 <= workers <= ests.
std::vector<EstRange> even_assignment(int64_t ests, int64_t workers);

}  // namespace estrain::plan
