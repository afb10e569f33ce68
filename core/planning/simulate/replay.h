#pragma once
// Replays a pool of real jobs in virtual time: the same dispatcher (core/planning/dispatch), and in place of launchers
// jobs that take as long to be checked, to start, to change, to stop and for a step as was measured (pool_trace.h). A
// step takes as long as it did at that moment, where the job had as many devices then; else as long as it did with as
// many of the pool's devices in use. The pool looks when it looked, and its policy is told what the job's launcher
// told. While no daemon serves the pool, jobs go on and nobody decides. Devices are taken and lent again at the moments
// at which they were; of a pool with several types, the first that are there.
//
// A job that is killed goes on from where it last changed devices. Jobs keep their batches, whatever the policy.

#include "core/planning/scheduling/policy.h"
#include "core/planning/simulate/pool_trace.h"
#include "core/planning/simulate/simulation.h"

namespace estrain::simulate {

struct ReplayOptions {
  std::string policy;
  uint64_t seed = 1;
  double round = 10;           // s between decisions at the most
  std::optional<double> lost;  // s that a change costs; nothing: as measured
  bool keep_stretches = false;
};

// Result::charge: the cost of a change as the pool estimates it at the end; Result::decisions: the pool's decisions.
// Throws Fault::usage for an unknown policy, Fault::infeasible where jobs wait for ever.
Result replay(const dispatch::PoolTrace& trace, const ReplayOptions& options);

}  // namespace estrain::simulate
