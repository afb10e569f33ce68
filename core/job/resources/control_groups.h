#pragma once
// The control groups of this process, both versions (cgroups(7)): folders of small files with limits and usage.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::resources {

struct ControlGroup {
  int version;  // 1: for a single controller; 2: for all
  // The group's folder, then its ancestors' folders, ending with the mount point. In a container a folder may be
  // missing; then the mount point has the group's files.
  std::vector<std::string> folders;
};

// Returns the groups in which `controller` ("cpu", "memory", "pids") may limit this process; a machine may have a group
// of each version. `root` is a prefix for /proc/self/cgroup and /sys/fs/cgroup.
std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller);

// Returns the number at the start of a text; absent for a word ("max") and for numbers without a limit: -1, or, in
// version 1, nearly 2^63.
std::optional<int64_t> limit_in(std::string_view text);
std::optional<int64_t> limit_in_file(const std::string& path);
// Returns the number after `name` and white space, in a text of lines with names and numbers.
std::optional<int64_t> number_of(const std::string& text, std::string_view name);

// Lowers `least` to `other`, if smaller. Either limit may be absent.
template <typename Number>
void lower(std::optional<Number>& least, std::optional<Number> other) {
  if (other && (!least || *other < *least)) least = other;
}

}  // namespace estrain::resources
