#pragma once
// Replays a pool of real jobs in virtual time: the same dispatcher (core/planning/dispatch), with simulated jobs in
// place of launchers. A check, a start, a change, a stop and a step of a job take as long as measured
// (core/planning/dispatch/trace/pool_trace.h). A step takes as long as at this moment of the trace, if the job had as
// many devices then. Otherwise the step takes as long as the job's steps on as many devices did while as many of the
// pool's devices were in use (PastJob::step_seconds). The pool looks at jobs at the moments of the trace, and its
// policy is told what the launcher told. While no daemon serves the pool, jobs continue and nobody decides. Devices are
// taken and lent again at the moments of the trace; in a pool with several types, the first present devices.
//
// A killed job resumes from its last change of devices. Jobs keep their batches, whatever the policy.

#include <string>

#include "core/planning/dispatch/trace/pool_trace.h"
#include "core/planning/scheduling/policy.h"
#include "core/planning/simulate/simulation.h"

namespace estrain::simulate {

// Returns whether the file is a trace of a pool of real jobs: whether its first byte is "{".
bool is_pool_trace(const std::string& path);
// Reads a trace, jobs in order of submission. Throws Fault::spec for missing or impossible content, Fault::io.
dispatch::PoolTrace read_pool_trace(const std::string& path);

struct ReplayOptions {
  std::string policy;  // as for make_policy_for_real_jobs() (planning/scheduling/policy.h)
  uint64_t seed = 1;
  double round = 10;            // s between decisions at the most
  std::optional<double> lost;   // s for which a change makes a job stand still; nothing: as measured
  bool keep_stretches = false;  // whether the result has SimulationResult::stretches
};

// SimulationResult::charge: the cost of a change as the pool estimates it at the end; SimulationResult::decisions: the
// pool's decisions. Throws Fault::usage for an unknown policy, Fault::infeasible if jobs wait and nothing happens for a
// day of virtual time, or if a job does not end with all steps done.
SimulationResult replay(const dispatch::PoolTrace& trace, const ReplayOptions& options);

}  // namespace estrain::simulate
