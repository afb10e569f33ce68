#pragma once
// Memory as /proc tells it, and as people read it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace estrain {

// Bytes of a line "Key:   123 kB" in the text of /proc/meminfo or /proc/PID/status; nothing where there is none.
std::optional<uint64_t> proc_bytes(std::string_view text, std::string_view key);

// Of this process since its exec, in bytes; what /proc does not tell is 0.
struct MemoryUse {
  uint64_t peak = 0;           // largest resident set
  uint64_t files = 0;          // resident pages of files (libraries, mapped data) now: shared with other processes
  uint64_t address_space = 0;  // largest
};
MemoryUse own_memory_use();

// "512 B", "1.5 GiB": three digits at most before the point, one behind it.
std::string format_bytes(uint64_t bytes);

}  // namespace estrain
