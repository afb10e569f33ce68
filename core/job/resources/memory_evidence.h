#pragma once
// Evidence of a kill by the kernel's out-of-memory killer. The victim sees only a SIGKILL, which any process may send.
//
//   1. The kernel's log (/dev/kmsg) names the victim: "Out of memory: Killed process 4711 (estrain) …". Users often
//      cannot read the log, and in a container the process ids differ.
//   2. The memory cgroup of this process and its children counts kills of its members, whoever ran out of memory:
//      memory.events (version 2) or memory.oom_control (version 1).
//   3. Without such a group, /proc/vmstat counts the kills of the whole machine.
//
// A counter does not name the victim, and each counted kill explains a single death.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"

namespace estrain::resources {

class MemoryEvidence {
 public:
  struct Observation {
    bool oom_kill = false;
    // Used and allowed memory, with or without a kill, on one line:
    // "memory.events: oom_kill 1 (was 0), memory.max 2.1 GB, memory.peak 2.1 GB"
    std::string text;
  };

  // Remembers the current counters. Does not throw if a file is unreadable: that evidence is then missing. `root` is a
  // prefix for /proc, /sys and /dev.
  explicit MemoryEvidence(std::string root = "");

  // Returns whether a kill since the start explains the death of process `dead`. Call this once for each process that
  // ended by SIGKILL and was not killed by us: each counted kill explains only one death.
  Observation since_start(pid_t dead);

 private:
  // A file with a line "oom_kill N".
  struct Counter {
    std::string path;
    std::string name;  // in messages
  };
  struct MemoryGroup {
    std::vector<std::string> folders;  // of the group and its ancestors
    std::string kills, limit, peak;    // names of files
    bool found() const { return !folders.empty(); }
  };
  MemoryGroup find_group() const;
  std::optional<int64_t> kills() const;
  std::string amounts() const;
  void read_kernel_log();

  std::string root_;
  MemoryGroup group_;
  Counter counter_;
  std::optional<int64_t> explained_;  // kills counted before the start, or used up since
  UniqueFd kernel_log_;
  std::string unfinished_line_;
  std::set<std::pair<pid_t, std::string>> victims_;  // since the start, each victim with the kernel's message
};

std::string format_memory(int64_t bytes);  // "2.1 GB", "512 MB"

}  // namespace estrain::resources
