#include "core/launch/machine_limits.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/cpu_affinity.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace estrain::launch {
namespace {

// The first word of a small file as a number; absent where there is no file, or another word ("max", "-1").
std::optional<int64_t> positive_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end == text.data() || value < 1) return std::nullopt;
  return value;
}

// A limit that cannot be read is none that we know of.
std::string text_of(const std::string& path) {
  try {
    return read_file_if_present(path).value_or("");
  } catch (const Error&) {
    return "";
  }
}

std::optional<double> ratio(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

template <typename Number>
void lower(std::optional<Number>& limit, std::optional<Number> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// cgroup-v2: "150000 100000", or "max 100000".
std::optional<double> cpu_max(const std::string& folder) {
  const std::string text = text_of(folder + "/cpu.max");
  const size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  return ratio(positive_number(text), positive_number(std::string_view(text).substr(space + 1)));
}

std::optional<double> cfs_quota(const std::string& folder) {
  return ratio(positive_number(text_of(folder + "/cpu.cfs_quota_us")),
               positive_number(text_of(folder + "/cpu.cfs_period_us")));
}

// Calls `visit` for the group and all around it. A path that the mount does not show, as in a container, does no harm:
// its files are just not there.
void for_each_group(const std::string& mount, std::string path, const std::function<void(const std::string&)>& visit) {
  for (;;) {
    visit(path == "/" ? mount : mount + path);
    const size_t slash = path.rfind('/');
    if (path.size() <= 1 || slash == std::string::npos) return;
    path.resize(std::max<size_t>(slash, 1));
  }
}

struct Membership {
  std::vector<std::string> controllers;  // empty: version 2
  std::string path;
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == text.npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// cgroups(7): lines of "number:controllers:path".
std::vector<Membership> memberships(const std::string& text) {
  std::vector<Membership> all;
  for (const std::string& line : split(text, '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    all.push_back(
        {controllers.empty() ? std::vector<std::string>{} : split(controllers, ','), line.substr(second + 1)});
  }
  return all;
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  for (const Membership& member : memberships(text_of(root + "/proc/self/cgroup"))) {
    const auto is = [&](std::string_view name) {
      return std::ranges::find(member.controllers, name) != member.controllers.end();
    };
    if (member.controllers.empty()) {
      for_each_group(mounts, member.path, [&](const std::string& folder) {
        lower(limits.cpus, cpu_max(folder));
        lower(limits.memory_bytes, positive_number(text_of(folder + "/memory.max")));
      });
    }
    if (is("cpu")) {
      for_each_group(mounts + "/cpu", member.path,
                     [&](const std::string& folder) { lower(limits.cpus, cfs_quota(folder)); });
    }
    if (is("memory")) {
      for_each_group(mounts + "/memory", member.path, [&](const std::string& folder) {
        lower(limits.memory_bytes, positive_number(text_of(folder + "/memory.limit_in_bytes")));
      });
    }
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

}  // namespace estrain::launch
