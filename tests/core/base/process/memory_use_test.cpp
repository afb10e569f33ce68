#include "core/base/process/memory_use.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace estrain {
namespace {

TEST_CASE("lines of /proc files") {
  const char* text = "MemTotal:       24000 kB\nMemFree:   7 kB\nHugePages_Total:       0\nLast: 3 kB";
  CHECK(proc_bytes(text, "MemTotal") == 24000 * 1024);
  CHECK(proc_bytes(text, "MemFree") == 7 * 1024);
  CHECK(proc_bytes(text, "Last") == 3 * 1024);
  CHECK(proc_bytes(text, "Mem") == std::nullopt);
  CHECK(proc_bytes(text, "SwapFree") == std::nullopt);
  CHECK(proc_bytes("SwapFree:", "SwapFree") == std::nullopt);
  CHECK(proc_bytes("SwapFree: none", "SwapFree") == std::nullopt);
  CHECK(proc_bytes("", "SwapFree") == std::nullopt);
}

TEST_CASE("the peak grows with what this process touches") {
  const MemoryUse before = own_memory_use();
  CHECK(before.peak > before.files);
  CHECK(before.files > 0);
  std::vector<char> memory(before.peak + (64 << 20));  // an earlier test may have used as much
  std::memset(memory.data(), 1, memory.size());
  const MemoryUse after = own_memory_use();
  CHECK(after.peak >= before.peak + (50 << 20));
  CHECK(after.address_space >= after.peak);
}

TEST_CASE("bytes for people") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.0 KiB");
  CHECK(format_bytes(uint64_t{3} << 29) == "1.5 GiB");
  CHECK(format_bytes(1023 * 1024) == "1.0 MiB");
  CHECK(format_bytes(UINT64_MAX) == "16.0 EiB");
}

}  // namespace
}  // namespace estrain
