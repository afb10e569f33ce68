#pragma once
// What a run may use of this machine, and until when: what Slurm says in the environment of its jobs (sbatch(1),
// "OUTPUT ENVIRONMENT VARIABLES"), never more than the process's CPU affinity and its cgroups allow. Without Slurm the
// latter alone count.
//
// A variable that does not hold what sbatch(1) promises counts as absent: a wrapper may have set it, and a run need not
// fail for that.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/host/machine_limits.h"

namespace estrain::host {

using Environment = std::map<std::string, std::string, std::less<>>;

struct Allocation {
  int64_t cores = 1;       // logical CPUs of this node, >= 1
  std::string cores_from;  // who says so: "SLURM_CPUS_ON_NODE", "CPU affinity", "cgroup"
  std::optional<int64_t> memory_bytes;
  std::string memory_from;               // "SLURM_MEM_PER_NODE", "cgroup", "physical memory"; empty: nobody says
  std::optional<int64_t> gpus;           // of this node; where somebody says how many
  std::optional<std::string> slurm_job;  // its id; absent outside Slurm
  int64_t restarts = 0;                  // how often Slurm has requeued the job
  int64_t nodes = 1;                     // of the whole job; this version uses the first
  std::optional<int64_t> ends_ns;        // when Slurm will end the job, on the clock of monotonic_ns()

  // Seconds until Slurm ends the job, >= 0; absent where there is no such time. Looks at the clock and at nothing else,
  // so it may be called at every tick, and does not see a limit that `scontrol update` changes later (current_end_ns).
  std::optional<double> seconds_left() const;
};

// The same instant on both clocks.
struct Instant {
  int64_t unix_seconds = 0;
  int64_t monotonic_ns = 0;
};

// Pure. SLURM_JOB_END_TIME gives the end, where this version of Slurm sets it.
Allocation read_allocation(const Environment& environment, const MachineLimits& limits, const Instant& now);

// This process's allocation. Where Slurm's environment lacks the end, `squeue` is asked for it, once, for at most two
// seconds: call it when the launcher starts, from the main thread, and keep the answer.
Allocation current_allocation();

// When Slurm will end this process's job as things are now: its time limit may have been changed since the environment
// was made. Asks squeue as above; where that does not say, `known`.
std::optional<int64_t> current_end_ns(std::optional<int64_t> known);

// The same as current_allocation() without the end, if only squeue knows it.
Allocation current_resources();

// For events.jsonl.
Json describe(const Allocation& allocation);

constexpr int64_t kNoTimeLimit = INT64_MAX;  // seconds

// Seconds in the words of squeue's %L, "[days-][[hours:]minutes:]seconds" or UNLIMITED; absent for NOT_SET, INVALID and
// whatever else is no time.
std::optional<int64_t> parse_time_left(std::string_view text);

// What `squeue` says is left of a job; absent if it says nothing of the kind within `milliseconds`, after which it is
// killed. `squeue` may be a path, or a name to be looked for in PATH.
std::optional<int64_t> ask_time_left(const std::string& job, int milliseconds, const std::string& squeue = "squeue");

}  // namespace estrain::host
