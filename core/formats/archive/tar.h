#pragma once
// Locates the files in a tar archive without unpacking: their start and size in the archive's bytes. Supports every
// kind of uncompressed tar that libarchive reads (ustar, pax, GNU).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace estrain::archive {

struct TarMember {
  std::string_view name;  // valid during the call
  uint64_t offset = 0;    // of the file's first byte in the archive
  uint64_t size = 0;
};

// Calls `each` for every regular file, in the archive's order. Skips folders, links and devices, which have no
// content. Reads only the headers. Throws Fault::corrupt: "not a tar archive", "truncated …", and for a sparse
// file.
void each_member(std::span<const std::byte> archive, const std::function<void(const TarMember&)>& each);

}  // namespace estrain::archive
