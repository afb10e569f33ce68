#pragma once
// Memory use from /proc, and byte counts for people.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json/fields.h"

namespace estrain {

// Returns bytes from a line "Key:   123 kB" in the text of /proc/meminfo or /proc/PID/status; nothing without the line.
std::optional<uint64_t> proc_bytes(std::string_view text, std::string_view key);

// Memory use of this process since its exec, in bytes; 0 if /proc does not show the figure.
struct MemoryUse {
  uint64_t peak = 0;           // largest resident set
  uint64_t files = 0;          // resident pages of files (libraries, mapped data) now: shared with other processes
  uint64_t address_space = 0;  // largest

  // Fields of messages (core/base/json/codec.h).
  ESTRAIN_FIELDS(peak, files, address_space)
};
MemoryUse own_memory_use();

// Returns "512 B", "1.5 GiB": at most three digits before the decimal point, a single digit after the point.
std::string format_bytes(uint64_t bytes);

}  // namespace estrain
