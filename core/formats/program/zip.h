#pragma once
// A zip archive in memory with uncompressed members, as written by PyTorch: a member is a part of the archive's
// bytes.
//
// The archive is untrusted: every offset and size in the directory and in the members' headers is checked against the
// archive's end, and a member's bytes against their CRC-32 when requested. An archive may have 4 GiB and more (zip64).
// Refused by name, since not supported: compressed or encrypted members, archives in several parts.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace estrain::program {

class ZipArchive {
 public:
  using Bytes = std::span<const std::byte>;

  // `bytes` must outlive the object. Throws Fault::corrupt; the caller adds the file's name.
  explicit ZipArchive(Bytes bytes);

  bool contains(std::string_view name) const { return members_.contains(name); }
  // Throws Fault::corrupt if the member is missing or damaged.
  Bytes member(std::string_view name) const;
  // Returns the folder of all members, with its slash: PyTorch names the folder after the file. Empty: no folder.
  std::string common_folder() const;

  // Corrects the checksums after members were written over in place, wherever the archive has checksums. `archive`: the
  // bytes from which this object was made. Throws Fault::corrupt.
  void renew_checksums(std::span<std::byte> archive) const;

 private:
  struct StoredFile {
    uint64_t entry_at;  // in the directory
    uint64_t header_at;
    uint64_t size;
    uint32_t crc;
    mutable bool is_checked = false;
  };
  void read_directory();
  // Adds the entry at `at` of the directory, which ends at `end`. Returns the entry's size.
  uint64_t add_entry(uint64_t at, uint64_t end);
  Bytes content_of(const StoredFile& member, std::string_view name) const;

  Bytes bytes_;
  std::map<std::string, StoredFile, std::less<>> members_;
};

}  // namespace estrain::program
