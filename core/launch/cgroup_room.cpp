#include "core/launch/cgroup_room.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"

namespace estrain::launch {
namespace {

// Version 1 says "no limit" with a number near 2^63.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

std::string text_of(const std::string& path) {
  try {
    return read_file_if_present(path).value_or("");
  } catch (const Error&) {
    return "";  // what cannot be read limits nothing that we know of
  }
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<uint64_t> number_in(const std::string& path) { return number(text_of(path)); }

// Lines "name value".
uint64_t statistic(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return number(std::string_view(line).substr(name.size() + 1)).value_or(0);
  }
  return 0;
}

std::optional<uint64_t> left(std::optional<uint64_t> limit, std::optional<uint64_t> used) {
  if (!limit || *limit >= kNoLimit || !used) return std::nullopt;
  return *limit - std::min(*limit, *used);
}

void lower(std::optional<uint64_t>& least, std::optional<uint64_t> other) {
  if (other && (!least || *other < *least)) least = other;
}

struct MemoryFiles {
  const char *limit, *use, *inactive, *active;  // the last two: lines of memory.stat, of the group and all below it
};
constexpr MemoryFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file", "active_file"};
constexpr MemoryFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};

std::optional<uint64_t> memory_left(const std::string& folder, const MemoryFiles& files) {
  std::optional<uint64_t> used = number_in(folder + files.use);
  if (!used) return std::nullopt;
  const std::string statistics = text_of(folder + "/memory.stat");
  *used -= std::min(*used, statistic(statistics, files.inactive) + statistic(statistics, files.active));
  return left(number_in(folder + files.limit), used);
}

// The folder of a group and those of all groups around it. A path that the mount does not show, as in a container, does
// no harm: its files are just not there.
std::vector<std::string> folders_up(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

bool names(std::string_view controllers, std::string_view wanted) {
  const std::string list = "," + std::string(controllers) + ",";
  return list.find("," + std::string(wanted) + ",") != std::string::npos;
}

}  // namespace

CgroupRoom cgroup_room(const std::string& root) {
  CgroupRoom room;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::istringstream lines(text_of(root + "/proc/self/cgroup"));
  // cgroups(7): "number:controllers:path"; version 2 has no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const bool version2 = controllers.empty();
    if (version2 || names(controllers, "memory")) {
      for (const std::string& folder : folders_up(version2 ? mounts : mounts + "/memory", path))
        lower(room.memory_bytes, memory_left(folder, version2 ? kVersion2 : kVersion1));
    }
    if (version2 || names(controllers, "pids")) {
      for (const std::string& folder : folders_up(version2 ? mounts : mounts + "/pids", path))
        lower(room.tasks, left(number_in(folder + "/pids.max"), number_in(folder + "/pids.current")));
    }
  }
  return room;
}

}  // namespace estrain::launch
