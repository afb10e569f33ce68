#pragma once
// The past of a pool of jobs for `estrain simulate`, which replays it (core/planning/dispatch/trace/pool_trace.h has
// the format).

#include <string>
#include <vector>

#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

// The jobs that are done, when they were submitted, and what was measured of them; the devices of all hosts, those that
// joined and left, and those that were taken and lent again; the times without a daemon. `cores`: of this host, which
// its devices share. Jobs that are not done, changes of the policy, and changes of the devices that an older estrain
// wrote down without their names, are left out.
std::string trace_of(const dispatch::State& state, const std::vector<Line>& history, int64_t cores);

}  // namespace estrain::pool
