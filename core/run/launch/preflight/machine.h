#pragma once
// The facts of this machine that decide whether a job can run on it, taken once: the checks over them
// (early_checks.h) are pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job/resources/cgroup_room.h"

namespace estrain::launch {

// Where the run directory is, or will be made.
struct RunPlace {
  std::string folder;                  // the run directory, or the nearest folder above it that exists
  std::string refusal;                 // why no file can be made or changed there; empty: it can
  std::optional<uint64_t> free_bytes;  // for this user; nothing where the file system does not tell
  std::optional<uint64_t> free_files;
  uint64_t checkpoint_bytes = 0;  // that the run's checkpoints take already
  bool has_run = false;           // a run was started there before
};

// Soft limits of this process (getrlimit(2)), which its children inherit. Nothing: unlimited.
struct ProcessLimits {
  std::optional<uint64_t> open_files;
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> address_space;
  std::optional<uint64_t> tasks_left;  // processes and threads of this user that may still be started
};

struct Machine {
  uint64_t memory_available = 0;           // without swapping: MemAvailable of /proc/meminfo
  uint64_t swap_free = 0;                  // bytes
  std::optional<uint64_t> commit_left;     // where the kernel promises no more memory than there is
  std::optional<uint64_t> memory_granted;  // by the batch system that granted this machine or a part of it
  std::string memory_granted_by;           // "SLURM_MEM_PER_NODE"
  resources::CgroupRoom cgroup;
  int64_t cores = 1;       // that this process may use
  std::string cores_from;  // who says so: "CPU affinity"
  ProcessLimits limits;
  uint64_t open_files = 0;            // of this process
  std::string shared_memory_refusal;  // why there is none; empty: there is
  RunPlace run;
  int64_t now = 0;          // seconds since 1970, by the wall clock
  int64_t newest_file = 0;  // the same: when the latest of the files looked at was changed
  std::string newest_path;

  // Looks at the machine. Compares the dates of the program, of the run directory's files and of `files` with the
  // clock. Takes milliseconds, unless a file system hangs. Leaves nothing behind and throws nothing: a limit that
  // cannot be found out counts as none.
  static Machine here(const std::string& run_directory, const std::vector<std::string>& files = {});
};

struct AvailableMemory {
  uint64_t bytes;
  std::string from;    // what limits it: "left by the cgroup's limit"
  bool swaps = false;  // beyond it the machine swaps before it fails
};

// The least that machine, cgroup, kernel and the grant of the machine leave.
AvailableMemory available_memory(const Machine& machine);

}  // namespace estrain::launch
