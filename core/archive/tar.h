#pragma once
// The files in a tar archive, found without unpacking: where each begins and ends in the archive's own bytes. Every
// kind of tar that libarchive reads (ustar, pax, GNU), not compressed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace estrain::archive {

struct Member {
  std::string_view name;  // for as long as the call lasts
  uint64_t offset = 0;    // of its first byte in the archive
  uint64_t size = 0;
};

// Calls `each` for every regular file, in the archive's order. Folders are passed over, as are links and devices, which
// hold no bytes. Reads the headers alone. Throws Fault::corrupt: "not a tar archive", "truncated …", and where a file
// is sparse.
void each_member(std::span<const std::byte> archive, const std::function<void(const Member&)>& each);

}  // namespace estrain::archive
