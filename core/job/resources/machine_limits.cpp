#include "core/job/resources/machine_limits.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/base/files/files.h"
#include "core/base/process/cpu_affinity.h"
#include "core/base/process/memory_use.h"
#include "core/job/resources/control_groups.h"

namespace estrain::resources {
namespace {

std::optional<double> ratio(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Version 2: "150000 100000", or "max 100000".
std::optional<double> cpu_max(const std::string& folder) {
  const std::string text = text_if_readable(folder + "/cpu.max");
  const size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  return ratio(limit_in(text), limit_in(std::string_view(text).substr(space + 1)));
}

std::optional<double> cfs_quota(const std::string& folder) {
  return ratio(limit_in_file(folder + "/cpu.cfs_quota_us"), limit_in_file(folder + "/cpu.cfs_period_us"));
}

std::optional<uint64_t> left(std::optional<int64_t> limit, std::optional<int64_t> used) {
  if (!limit || !used) return std::nullopt;
  return static_cast<uint64_t>(*limit - std::min(*limit, *used));
}

struct MemoryFiles {
  const char *limit, *use, *inactive, *active;  // the last two: lines of memory.stat, for the group and its descendants
};
constexpr MemoryFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file", "active_file"};
constexpr MemoryFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};

std::optional<uint64_t> memory_left(const std::string& folder, const MemoryFiles& files) {
  std::optional<int64_t> used = limit_in_file(folder + files.use);
  if (!used) return std::nullopt;
  const std::string statistics = text_if_readable(folder + "/memory.stat");
  const int64_t cached =
      number_of(statistics, files.inactive).value_or(0) + number_of(statistics, files.active).value_or(0);
  *used -= std::min(*used, cached);
  return left(limit_in_file(folder + files.limit), used);
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    for (const std::string& folder : group.folders)
      lower(limits.cpus, group.version == 2 ? cpu_max(folder) : cfs_quota(folder));
  }
  for (const ControlGroup& group : control_groups(root, "memory")) {
    for (const std::string& folder : group.folders)
      lower(limits.memory_bytes,
            limit_in_file(folder + (group.version == 2 ? "/memory.max" : "/memory.limit_in_bytes")));
  }
  return limits;
}

MachineLimits machine_limits() {
  MachineLimits limits;
  limits.cores = cpus_of_affinity();
  limits.cores_from = "CPU affinity";
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    limits.memory_bytes = pages * page;
    limits.memory_from = "physical memory";
  }
  const CgroupLimits cgroup = cgroup_limits("");
  if (cgroup.cpus && *cgroup.cpus < static_cast<double>(limits.cores)) {
    limits.cores = std::max<int64_t>(1, static_cast<int64_t>(std::floor(*cgroup.cpus)));
    limits.cores_from = "cgroup";
  }
  if (cgroup.memory_bytes && (!limits.memory_bytes || *cgroup.memory_bytes < *limits.memory_bytes)) {
    limits.memory_bytes = cgroup.memory_bytes;
    limits.memory_from = "cgroup";
  }
  return limits;
}

CgroupRoom cgroup_room(const std::string& root) {
  CgroupRoom room;
  for (const ControlGroup& group : control_groups(root, "memory")) {
    for (const std::string& folder : group.folders)
      lower(room.memory_bytes, memory_left(folder, group.version == 2 ? kVersion2 : kVersion1));
  }
  for (const ControlGroup& group : control_groups(root, "pids")) {
    for (const std::string& folder : group.folders)
      lower(room.tasks, left(limit_in_file(folder + "/pids.max"), limit_in_file(folder + "/pids.current")));
  }
  return room;
}

uint64_t memory_room(const std::string& root) {
  const uint64_t machine = proc_bytes(text_if_readable(root + "/proc/meminfo"), "MemAvailable").value_or(UINT64_MAX);
  return std::min(machine, cgroup_room(root).memory_bytes.value_or(UINT64_MAX));
}

}  // namespace estrain::resources
