#pragma once
// The control groups of this process, both versions (cgroups(7)): folders of small files that tell limits and uses.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::host {

struct ControlGroup {
  int version;  // 1: of one controller; 2: of all
  // The group's, then those of the groups around it, the mount's own last. In a container they need not all be there:
  // its files are then those of the mount.
  std::vector<std::string> folders;
};

// Groups in which `controller` ("cpu", "memory", "pids") may limit this process; a machine may have one of either
// version. `root` stands in front of /proc/self/cgroup and /sys/fs/cgroup.
std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller);

// The number that a text begins with; absent for another word ("max"), or one that stands for no limit: -1, or, in
// version 1, nearly 2^63.
std::optional<int64_t> limit_in(std::string_view text);
std::optional<int64_t> limit_in_file(const std::string& path);
// The number behind `name` and white space, of a text of such lines.
std::optional<int64_t> number_of(const std::string& text, std::string_view name);

// The least of several limits, some of which may be absent.
template <typename Number>
void lower(std::optional<Number>& least, std::optional<Number> other) {
  if (other && (!least || *other < *least)) least = other;
}

}  // namespace estrain::host
