#include "core/base/process/memory_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/error.h"
#include "core/base/files/files.h"

namespace estrain {
namespace {

// Returns the rest of the line that starts with `key` and a colon.
std::optional<std::string_view> line_of(std::string_view text, std::string_view key) {
  for (;;) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) return line.substr(key.size() + 1);
    if (end == text.npos) return std::nullopt;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<uint64_t> proc_bytes(std::string_view text, std::string_view key) {
  std::optional<std::string_view> line = line_of(text, key);
  if (!line) return std::nullopt;
  line->remove_prefix(std::min(line->find_first_not_of(" \t"), line->size()));
  uint64_t kilobytes = 0;
  const auto [end, failure] = std::from_chars(line->data(), line->data() + line->size(), kilobytes);
  if (failure != std::errc{} || end == line->data()) return std::nullopt;
  return kilobytes * 1024;
}

MemoryUse own_memory_use() {
  const std::string status = text_if_readable("/proc/self/status");
  return {proc_bytes(status, "VmHWM").value_or(0), proc_bytes(status, "RssFile").value_or(0),
          proc_bytes(status, "VmPeak").value_or(0)};
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace estrain
