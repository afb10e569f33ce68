#include "core/launch/memory_evidence.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"

namespace estrain::launch {
namespace {

constexpr int64_t no_limit = INT64_C(1) << 60;   // cgroup version 1 writes such a number where there is none
constexpr size_t most_kernel_lines = 1'000'000;  // read at one time

std::optional<std::string> content_of(const std::string& path) {
  try {
    return read_file_if_present(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<int64_t> to_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// The number behind `name` and white space, in a file of such lines.
std::optional<int64_t> number_after(const std::string& path, std::string_view name) {
  std::istringstream lines(content_of(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const size_t at = line.find_first_not_of(" \t", name.size());
    if (at == name.size() || at == std::string::npos) continue;
    if (const auto number = to_number(std::string_view(line).substr(at))) return number;
  }
  return std::nullopt;
}

std::optional<int64_t> number_in(const std::string& path) { return to_number(content_of(path).value_or("")); }

// A process's groups as /proc/self/cgroup lists them: "4:memory:/job" (version 1), "0::/job" (version 2).
struct Groups {
  std::optional<std::string> memory;   // of version 1's memory controller
  std::optional<std::string> unified;  // of version 2
};

Groups read_groups(const std::string& path) {
  Groups groups;
  std::istringstream lines(content_of(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") groups.unified = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) groups.memory = line.substr(second + 1);
  }
  return groups;
}

bool present(const std::string& path) {
  std::error_code failure;
  return std::filesystem::exists(path, failure);
}

// In a container the path may be that of the host while the tree that is mounted begins at the container's own group.
std::string visible_folder(const std::string& root, const std::string& path, const std::string& file) {
  std::string own = path == "/" ? root : root + path;
  if (present(own + "/" + file)) return own;
  return present(root + "/" + file) ? root : "";
}

// The victim of "…: Killed process 4711 (estrain) …", or nothing.
std::optional<pid_t> victim(std::string_view line) {
  constexpr std::string_view words = "Killed process ";
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const auto pid = to_number(line.substr(at + words.size()));
  if (!pid) return std::nullopt;
  return static_cast<pid_t>(*pid);
}

// "6,1234,5678901,-;Out of memory: …" without what stands before the semicolon.
std::string message_of(const std::string& record) { return record.substr(record.find(';') + 1); }

}  // namespace

std::string format_memory(int64_t bytes) {
  const double amount = static_cast<double>(bytes);
  return amount >= 1e9 ? fmt::format("{:.1f} GB", amount / 1e9) : fmt::format("{:.0f} MB", amount / 1e6);
}

MemoryEvidence::MemoryEvidence(Sources sources) : sources_(std::move(sources)), group_(find_group()) {
  counter_ = group_.found() ? Counter{group_.folder + "/" + group_.kills, group_.kills}
                            : Counter{sources_.proc + "/vmstat", "/proc/vmstat"};
  explained_ = kills();
  kernel_log_ = UniqueFd(::open(sources_.kernel_log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (kernel_log_ && ::lseek(kernel_log_.get(), 0, SEEK_END) < 0) kernel_log_.reset();
}

// Version 1's memory controller where it is mounted, else version 2. A machine may have both trees ("hybrid"): then the
// memory is version 1's.
MemoryEvidence::Group MemoryEvidence::find_group() const {
  const Groups groups = read_groups(sources_.proc + "/self/cgroup");
  if (groups.memory) {
    Group group{"", sources_.cgroups + "/memory", "memory.oom_control", "memory.limit_in_bytes",
                "memory.max_usage_in_bytes"};
    group.folder = visible_folder(group.root, *groups.memory, group.kills);
    if (group.found()) return group;
  }
  Group group{"", sources_.cgroups, "memory.events", "memory.max", "memory.peak"};
  if (groups.unified) group.folder = visible_folder(group.root, *groups.unified, group.kills);
  return group;
}

std::optional<int64_t> MemoryEvidence::kills() const { return number_after(counter_.path, "oom_kill"); }

// The tightest limit of the group and those above it, and the most that was used below that limit.
std::string MemoryEvidence::amounts() const {
  std::optional<int64_t> limit;
  std::string limited = group_.folder;
  for (std::string folder = group_.folder; group_.found(); folder = folder.substr(0, folder.rfind('/'))) {
    const auto here = number_in(folder + "/" + group_.limit);
    if (here && *here < limit.value_or(no_limit)) {
      limit = here;
      limited = folder;
    }
    if (folder.size() <= group_.root.size()) break;
  }
  std::string text;
  if (limit) text += fmt::format(", {} {}", group_.limit, format_memory(*limit));
  if (group_.found()) {
    if (const auto peak = number_in(limited + "/" + group_.peak)) {
      text += fmt::format(", {} {}", group_.peak, format_memory(*peak));
    }
  }
  if (!limit) {
    const auto total = number_after(sources_.proc + "/meminfo", "MemTotal:");
    if (total) text += fmt::format(", no limit but the machine's {}", format_memory(*total * 1024));
  }
  return text;
}

// /dev/kmsg gives one record for each read, a file (in tests) many lines.
void MemoryEvidence::read_kernel_log() {
  char buffer[8192];
  for (size_t reads = 0; kernel_log_ && reads < most_kernel_lines; ++reads) {
    const ssize_t got = ::read(kernel_log_.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: the next record was overwritten
    if (got <= 0) return;
    unfinished_line_.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = unfinished_line_.find('\n')) != std::string::npos; unfinished_line_.erase(0, end + 1)) {
      const std::string line = unfinished_line_.substr(0, end);
      if (const auto pid = victim(line)) victims_.emplace(*pid, message_of(line));
    }
  }
}

MemoryEvidence::Finding MemoryEvidence::since_start(pid_t dead) {
  Finding finding;
  const auto counted = kills();
  if (counted) finding.text = fmt::format("{}: oom_kill {}", counter_.name, *counted);
  if (counted && explained_ && *counted > *explained_) {
    finding.oom_kill = true;
    finding.text += fmt::format(" (was {})", *explained_);
    ++*explained_;
  }
  finding.text += amounts();
  if (finding.text.starts_with(", ")) finding.text.erase(0, 2);
  read_kernel_log();
  const auto named = victims_.lower_bound({dead, ""});
  if (named != victims_.end() && named->first == dead) {
    finding.oom_kill = true;
    finding.text = "kernel: " + named->second + (finding.text.empty() ? "" : "; ") + finding.text;
  }
  return finding;
}

}  // namespace estrain::launch
