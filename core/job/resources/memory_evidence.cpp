#include "core/job/resources/memory_evidence.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/files/files.h"
#include "core/base/process/memory_use.h"
#include "core/job/resources/control_groups.h"

namespace estrain::resources {
namespace {

constexpr size_t most_kernel_lines = 1'000'000;  // read in one go

bool is_present(const std::string& path) {
  std::error_code failure;
  return std::filesystem::exists(path, failure);
}

// The victim of "…: Killed process 4711 (estrain) …", or nothing.
std::optional<pid_t> victim(std::string_view line) {
  constexpr std::string_view words = "Killed process ";
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const auto pid = limit_in(line.substr(at + words.size()));
  if (!pid) return std::nullopt;
  return static_cast<pid_t>(*pid);
}

// "6,1234,5678901,-;Out of memory: …" without the part before the semicolon.
std::string message_of(const std::string& record) { return record.substr(record.find(';') + 1); }

}  // namespace

std::string format_memory(int64_t bytes) {
  const double amount = static_cast<double>(bytes);
  return amount >= 1e9 ? fmt::format("{:.1f} GB", amount / 1e9) : fmt::format("{:.0f} MB", amount / 1e6);
}

MemoryEvidence::MemoryEvidence(std::string root) : root_(std::move(root)), group_(find_group()) {
  counter_ = group_.found() ? Counter{group_.folders.front() + "/" + group_.kills, group_.kills}
                            : Counter{root_ + "/proc/vmstat", "/proc/vmstat"};
  explained_ = kills();
  kernel_log_ = UniqueFd(::open((root_ + "/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (kernel_log_ && ::lseek(kernel_log_.get(), 0, SEEK_END) < 0) kernel_log_.reset();
}

// Returns the group of version 1's memory controller if mounted, otherwise of version 2. With both ("hybrid"), version
// 1 controls memory.
MemoryEvidence::MemoryGroup MemoryEvidence::find_group() const {
  const auto files_of = [](int version) {
    return version == 1 ? MemoryGroup{{}, "memory.oom_control", "memory.limit_in_bytes", "memory.max_usage_in_bytes"}
                        : MemoryGroup{{}, "memory.events", "memory.max", "memory.peak"};
  };
  const std::vector<ControlGroup> groups = control_groups(root_, "memory");
  for (const int version : {1, 2}) {
    for (const ControlGroup& candidate : groups) {
      if (candidate.version != version) continue;
      MemoryGroup group = files_of(version);
      const auto shown = std::ranges::find_if(
          candidate.folders, [&](const std::string& folder) { return is_present(folder + "/" + group.kills); });
      group.folders.assign(shown, candidate.folders.end());
      if (group.found()) return group;
    }
  }
  return files_of(2);
}

std::optional<int64_t> MemoryEvidence::kills() const { return number_of(text_if_readable(counter_.path), "oom_kill"); }

// The tightest limit of the group and its ancestors, and the peak use under that limit.
std::string MemoryEvidence::amounts() const {
  std::optional<int64_t> limit;
  std::string limited = group_.found() ? group_.folders.front() : "";
  for (const std::string& folder : group_.folders) {
    const auto here = limit_in_file(folder + "/" + group_.limit);
    if (!here || (limit && *here >= *limit)) continue;
    limit = here;
    limited = folder;
  }
  std::string text;
  if (limit) text += fmt::format(", {} {}", group_.limit, format_memory(*limit));
  if (group_.found()) {
    if (const auto peak = limit_in_file(limited + "/" + group_.peak)) {
      text += fmt::format(", {} {}", group_.peak, format_memory(*peak));
    }
  }
  if (!limit) {
    const auto total = proc_bytes(text_if_readable(root_ + "/proc/meminfo"), "MemTotal");
    if (total) text += fmt::format(", no limit but the machine's {}", format_memory(static_cast<int64_t>(*total)));
  }
  return text;
}

// /dev/kmsg returns one record per read, a file (in tests) many lines.
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

MemoryEvidence::Observation MemoryEvidence::since_start(pid_t dead) {
  Observation observed;
  const auto counted = kills();
  if (counted) observed.text = fmt::format("{}: oom_kill {}", counter_.name, *counted);
  if (counted && explained_ && *counted > *explained_) {
    observed.oom_kill = true;
    observed.text += fmt::format(" (was {})", *explained_);
    ++*explained_;
  }
  observed.text += amounts();
  if (observed.text.starts_with(", ")) observed.text.erase(0, 2);
  read_kernel_log();
  const auto named = victims_.lower_bound({dead, ""});
  if (named != victims_.end() && named->first == dead) {
    observed.oom_kill = true;
    observed.text = "kernel: " + named->second + (observed.text.empty() ? "" : "; ") + observed.text;
  }
  return observed;
}

}  // namespace estrain::resources
