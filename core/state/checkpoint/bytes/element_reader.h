#pragma once
// Reads and digests the elements of many tensors with a few threads: a single one is slower than the page cache.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::checkpoint {

struct ElementRange {
  uint64_t offset;  // in the file
  uint64_t bytes;
  std::byte* out;  // 4-byte aligned; nullptr: digest only
};

// The digest of each range. Throws Fault::corrupt if the file ends before a range does, Fault::io.
std::vector<uint64_t> read_elements(int fd, const std::vector<ElementRange>& ranges);

}  // namespace estrain::checkpoint
