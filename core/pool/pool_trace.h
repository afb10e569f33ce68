#pragma once
// The past of a pool of jobs for `estrain simulate`, which replays the past (format:
// core/planning/dispatch/trace/pool_trace.h).

#include <string>
#include <vector>

#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

// Returns the finished jobs that were no guests with their times of submission and measurements; the devices of all
// hosts, with the times of joining, leaving, being taken and being lent again; the times without a daemon. `cores`: of
// this host, shared by the host's devices. Unfinished jobs and changes of the policy are left out.
std::string trace_of(const dispatch::State& state, const std::vector<Line>& history, int64_t cores);

}  // namespace estrain::pool
