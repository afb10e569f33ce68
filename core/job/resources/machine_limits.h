#pragma once
// How much of the machine this process may use: the minimum of its CPU affinity, the limits of its cgroups and their
// ancestors (versions 1 and 2), and the physical memory.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::resources {

struct MachineLimits {
  int64_t cores = 1;       // logical CPUs, >= 1; 2 for a quota of 2.5 CPUs
  std::string cores_from;  // "CPU affinity", "cgroup"
  std::optional<int64_t> memory_bytes;
  std::string memory_from;  // "physical memory", "cgroup"; empty: unknown
};

MachineLimits machine_limits();

// The limits of cgroups alone; `root` is a prefix for /proc/self/cgroup and /sys/fs/cgroup.
struct CgroupLimits {
  std::optional<double> cpus;  // CPU time per time: a quota of 150 ms every 100 ms is 1.5
  std::optional<int64_t> memory_bytes;
};
CgroupLimits cgroup_limits(const std::string& root);

// What is free in the cgroups of this process (versions 1 and 2) and their ancestors. Absent: unlimited or unknown.
struct CgroupRoom {
  std::optional<uint64_t> memory_bytes;  // limit minus use; file pages, which the kernel can drop, do not count as use
  std::optional<uint64_t> tasks;         // further processes and threads allowed

  bool operator==(const CgroupRoom&) const = default;
};

// Returns the minimum over the groups. `root` is a prefix for /proc/self/cgroup and /sys/fs/cgroup.
CgroupRoom cgroup_room(const std::string& root = "");

// Returns the bytes of memory that this process can take without swapping: the least of what the machine and the
// cgroups have free. UINT64_MAX: unknown. `root`: also for /proc/meminfo.
uint64_t memory_room(const std::string& root = "");

}  // namespace estrain::resources
