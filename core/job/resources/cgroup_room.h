#pragma once
// The free memory in the cgroups of this process (versions 1 and 2) and their ancestors. The limits themselves:
// machine_limits.h.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::resources {

// Absent: unlimited or unknown.
struct CgroupRoom {
  std::optional<uint64_t> memory_bytes;  // limit minus use; file pages, which the kernel can drop, do not count as use
  std::optional<uint64_t> tasks;         // further processes and threads allowed

  bool operator==(const CgroupRoom&) const = default;
};

// Returns the minimum over the groups. `root` is a prefix for /proc/self/cgroup and /sys/fs/cgroup.
CgroupRoom cgroup_room(const std::string& root = "");

}  // namespace estrain::resources
