#pragma once
// The past of a pool of jobs for `estrain simulate`, which replays the past (format:
// core/planning/dispatch/trace/pool_trace.h).

#include <string>
#include <vector>

#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

// Returns the finished jobs, with the times of submission and all measurements; the devices of all hosts, with joins
// and leaves, and with takes and lends; the times without a daemon. `cores`: the cores of this host, shared by its
// devices. Leaves out unfinished jobs, changes of the policy, and changes of devices that an older estrain wrote down
// without names.
std::string trace_of(const dispatch::State& state, const std::vector<Line>& history, int64_t cores);

}  // namespace estrain::pool
