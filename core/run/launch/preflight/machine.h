#pragma once
// The facts of this machine about whether a job can run, taken once: the checks over the facts (early_checks.h) are
// pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job/resources/machine_limits.h"

namespace estrain::launch {

// The place of the run directory, now or later.
struct RunPlace {
  std::string folder;                  // the run directory, or the nearest existing folder above
  std::string refusal;                 // why no file can be made or changed there; empty: no obstacle
  std::optional<uint64_t> free_bytes;  // for this user; nothing where the file system does not tell
  std::optional<uint64_t> free_files;
  uint64_t checkpoint_bytes = 0;  // taken by the run's checkpoints already
  bool has_run = false;           // a run was started in the folder before
};

// Soft limits of this process (getrlimit(2)), inherited by its children. Nothing: unlimited.
struct ProcessLimits {
  std::optional<uint64_t> open_files;
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> address_space;
  std::optional<uint64_t> tasks_left;  // processes and threads which this user may still start
};

struct Machine {
  uint64_t memory_available = 0;           // without swapping: MemAvailable of /proc/meminfo
  uint64_t swap_free = 0;                  // bytes
  std::optional<uint64_t> commit_left;     // bytes; set if the kernel promises no more memory than exists
  std::optional<uint64_t> memory_granted;  // by the batch system that granted this machine or a part
  std::string memory_granted_by;           // "SLURM_MEM_PER_NODE"
  resources::CgroupRoom cgroup;
  int64_t cores = 1;       // for this process's use
  std::string cores_from;  // the source of the number: "CPU affinity"
  ProcessLimits limits;
  uint64_t open_files = 0;            // of this process
  std::string shared_memory_refusal;  // why the machine has no shared memory; empty: it has
  RunPlace run;
  int64_t now = 0;          // seconds since 1970, by the wall clock
  int64_t newest_file = 0;  // the same: when the latest of the files looked at was changed
  std::string newest_path;

  // Looks at the machine. `newest_file` is the latest among the program, the files directly in the run directory and
  // `files`. Takes milliseconds, unless a file system hangs. Leaves nothing behind and throws nothing: an unknown limit
  // counts as no limit.
  static Machine here(const std::string& run_directory, const std::vector<std::string>& files = {});
};

struct AvailableMemory {
  uint64_t bytes;
  std::string from;    // the limit: "left by the cgroup's limit"
  bool swaps = false;  // beyond `bytes` the machine swaps before it fails
};

// Returns the smallest of the limits by machine, cgroup, kernel and the grant of the machine.
AvailableMemory available_memory(const Machine& machine);

}  // namespace estrain::launch
