#pragma once
// The past of a pool of jobs for `estrain simulate`, which replays the past (format:
// core/planning/dispatch/trace/pool_trace.h).

#include <string>
#include <vector>

#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

// The jobs that are done, when they were submitted, and what was measured of them; the devices of all hosts, those that
// joined and left, and those that were taken and lent again; the times without a daemon. `cores`: of this host, which
// its devices share. Jobs that are not done and changes of the policy are left out.
std::string trace_of(const dispatch::State& state, const std::vector<Line>& history, int64_t cores);

}  // namespace estrain::pool
