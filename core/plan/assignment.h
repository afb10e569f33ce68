#pragma once
// Which worker hosts which ESTs: always contiguous ranges in worker order.

#include <vector>

#include "core/base/ids.h"

namespace estrain::plan {

// Ranges whose sizes differ by at most one; the first `ests mod workers` workers host one more.
// Throws Fault::infeasible unless 1 <= workers <= ests.
std::vector<EstRange> even_assignment(int64_t ests, int64_t workers);

}  // namespace estrain::plan
