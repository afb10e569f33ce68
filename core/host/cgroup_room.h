#pragma once
// What the cgroups of this process (versions 1 and 2), and those around them, leave to be used. The limits themselves:
// machine_limits.h.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::host {

// Nothing: not limited, or not told.
struct CgroupRoom {
  std::optional<uint64_t> memory_bytes;  // limit less use; pages of files, which the kernel drops, do not count as use
  std::optional<uint64_t> tasks;         // processes and threads that may still be started

  bool operator==(const CgroupRoom&) const = default;
};

// The least that any group leaves. `root` stands in front of /proc/self/cgroup and /sys/fs/cgroup.
CgroupRoom cgroup_room(const std::string& root = "");

}  // namespace estrain::host
