#include "core/job/resources/control_groups.h"

#include <charconv>
#include <sstream>
#include <system_error>

#include "core/base/files/files.h"

namespace estrain::resources {
namespace {

constexpr int64_t kNoLimit = INT64_C(1) << 60;

bool lists(std::string_view controllers, std::string_view wanted) {
  const std::string list = "," + std::string(controllers) + ",";
  return list.find("," + std::string(wanted) + ",") != std::string::npos;
}

std::vector<std::string> folders_up(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::vector<ControlGroup> groups;
  std::istringstream lines(text_if_readable(root + "/proc/self/cgroup"));
  // "number:controllers:path"; version 2 names no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos || line[second + 1] != '/') continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      groups.push_back({2, folders_up(mounts, path)});
    } else if (lists(controllers, controller)) {
      groups.push_back({1, folders_up(mounts + "/" + std::string(controller), path)});
    }
  }
  return groups;
}

std::optional<int64_t> limit_in(std::string_view text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || value < 0 || value >= kNoLimit) return std::nullopt;
  return value;
}

std::optional<int64_t> limit_in_file(const std::string& path) { return limit_in(text_if_readable(path)); }

std::optional<int64_t> number_of(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const size_t at = line.find_first_not_of(" \t", name.size());
    if (at == name.size() || at == line.npos) continue;
    if (const auto number = limit_in(std::string_view(line).substr(at))) return number;
  }
  return std::nullopt;
}

}  // namespace estrain::resources
