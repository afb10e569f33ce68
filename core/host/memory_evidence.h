#pragma once
// Evidence that the kernel's out-of-memory killer struck: its victim only sees a SIGKILL, which anybody may have sent.
//
//   1. The kernel's log (/dev/kmsg) names the victim: "Out of memory: Killed process 4711 (estrain) …". Often not
//      readable for users, and in a container the process ids differ.
//   2. The memory cgroup of this process, which its children are in too, counts kills among its members, whoever ran
//      out of memory: memory.events (version 2) or memory.oom_control (version 1).
//   3. Where there is no such group, /proc/vmstat counts the kills of the whole machine.
//
// A counter does not say who was killed, so each kill that was counted explains one death.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"

namespace estrain::host {

class MemoryEvidence {
 public:
  struct Finding {
    bool oom_kill = false;
    // What was used and allowed, with or without a kill; one line:
    // "memory.events: oom_kill 1 (was 0), memory.max 2.1 GB, memory.peak 2.1 GB"
    std::string text;
  };

  // Remembers the counters as they are now. Never throws for what cannot be read: that evidence is then missing. `root`
  // stands in front of /proc, /sys and /dev.
  explicit MemoryEvidence(std::string root = "");

  // Whether a kill since the start explains the death of process `dead`. Ask once for each process that ended by
  // SIGKILL and was not killed by ourselves: a kill that was only counted is used up by the answer.
  Finding since_start(pid_t dead);

 private:
  // A file with a line "oom_kill N".
  struct Counter {
    std::string path;
    std::string name;  // in messages
  };
  struct Group {
    std::vector<std::string> folders;  // of the group, and of those around it
    std::string kills, limit, peak;    // names of files
    bool found() const { return !folders.empty(); }
  };
  Group find_group() const;
  std::optional<int64_t> kills() const;
  std::string amounts() const;
  void read_kernel_log();

  std::string root_;
  Group group_;
  Counter counter_;
  std::optional<int64_t> explained_;  // kills counted before the start, or used up since
  UniqueFd kernel_log_;
  std::string unfinished_line_;
  std::set<std::pair<pid_t, std::string>> victims_;  // since the start, each with the kernel's words
};

std::string format_memory(int64_t bytes);  // "2.1 GB", "512 MB"

}  // namespace estrain::host
