#pragma once
// How much of the machine this process may use, whoever says so: its CPU affinity, the limits of its cgroups and of
// those around them (versions 1 and 2), the memory that there is.

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::host {

struct MachineLimits {
  int64_t cores = 1;       // logical CPUs, >= 1; of a quota of 2.5 CPUs, 2
  std::string cores_from;  // "CPU affinity", "cgroup"
  std::optional<int64_t> memory_bytes;
  std::string memory_from;  // "physical memory", "cgroup"; empty: not known
};

MachineLimits machine_limits();

// What cgroups alone allow; `root` stands in front of /proc/self/cgroup and /sys/fs/cgroup.
struct CgroupLimits {
  std::optional<double> cpus;  // time per time: a quota of 150 ms every 100 ms is 1.5
  std::optional<int64_t> memory_bytes;
};
CgroupLimits cgroup_limits(const std::string& root);

}  // namespace estrain::host
