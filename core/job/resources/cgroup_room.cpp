#include "core/job/resources/cgroup_room.h"

#include <algorithm>

#include "core/base/files/files.h"
#include "core/job/resources/control_groups.h"

namespace estrain::resources {
namespace {

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

}  // namespace estrain::resources
