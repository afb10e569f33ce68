#pragma once
// The resources of this machine that a run may use, and until when: the resources stated by Slurm in the environment of
// its jobs (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"), limited by the process's CPU affinity and cgroups. Without
// Slurm, only affinity and cgroups count.
//
// A variable with a value not allowed by sbatch(1) counts as absent: a wrapper may have set the variable, which need
// not fail a run. The variables of an ended job count as absent, too: a terminal multiplexer started in an interactive
// job hands the variables to every shell that it opens later.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/json/json.h"
#include "core/job/resources/machine_limits.h"

namespace estrain::resources {

using Environment = std::map<std::string, std::string, std::less<>>;

struct Allocation {
  int64_t cores = 1;       // logical CPUs of this node, >= 1
  std::string cores_from;  // the source: "SLURM_CPUS_ON_NODE", "CPU affinity", "cgroup"
  std::optional<int64_t> memory_bytes;
  std::string memory_from;               // "SLURM_MEM_PER_NODE", "cgroup", "physical memory"; empty: unknown
  std::optional<int64_t> gpus;           // of this node, if known
  std::optional<std::string> slurm_job;  // the job's id; absent outside Slurm
  std::optional<std::string> ended_job;  // the ended job whose variables remain; then slurm_job is absent
  int64_t restarts = 0;                  // how often Slurm has requeued the job
  int64_t nodes = 1;                     // of the whole job; this version uses the first
  std::optional<MonotonicTime> ends;     // when Slurm will end the job

  // Returns the seconds until Slurm ends the job, >= 0; absent without a time limit. Cheap: only reads the clock. Does
  // not notice a change of the limit by `scontrol update` (see current_end).
  std::optional<double> seconds_left() const;
};

// The same instant on both clocks.
struct Instant {
  int64_t unix_seconds = 0;
  MonotonicTime monotonic{};
};

// Pure. Takes the end from SLURM_JOB_END_TIME, if this version of Slurm sets the variable. An end in the past is
// believed: the job has ended.
Allocation read_allocation(const Environment& environment, const MachineLimits& limits, const Instant& now);

// Returns this process's allocation. If Slurm's environment lacks the end, asks `squeue` once, for at most two seconds.
// The launcher calls this once, from the main thread at its start, and keeps the answer.
Allocation current_allocation();

// Returns the current end of this process's Slurm job: the time limit may have changed since the job started. Asks
// squeue as above; if squeue does not tell, returns `known`.
std::optional<MonotonicTime> current_end(std::optional<MonotonicTime> known);

// Like current_allocation(), but asks squeue only if the end in the environment is past, once in a process: the end of
// a running job may have been put off.
Allocation current_resources();

// "Slurm job 17 has ended (…)": for the user. Empty if `ended_job` is empty.
std::string words_of_ended_job(const Allocation& allocation);

// For events.jsonl.
Json describe(const Allocation& allocation);

constexpr int64_t kNoTimeLimit = INT64_MAX;  // seconds

// Parses squeue's %L, "[days-][[hours:]minutes:]seconds" or UNLIMITED, into seconds; absent for NOT_SET, INVALID and
// anything else.
std::optional<int64_t> parse_time_left(std::string_view text);

// Returns the remaining time of a job according to `squeue`; absent if squeue does not tell the time within
// `patience`; squeue is then killed. `squeue` may be a path or a name in PATH.
std::optional<int64_t> ask_time_left(const std::string& job, std::chrono::milliseconds patience,
                                     const std::string& squeue = "squeue");

}  // namespace estrain::resources
