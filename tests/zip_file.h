#pragma once
// A zip archive of uncompressed members, as written by PyTorch, built field by field so that a test can corrupt it.

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace estrain::testing {

inline void put(std::string& bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes.push_back(i < sizeof value ? static_cast<char>(value >> (8 * i)) : '\0');
}

inline uint32_t crc_of(const std::string& content) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

enum class ZipKind { small, large };  // large: as for 4 GiB and more (zip64), whatever the sizes are

// Writes a value of 4 bytes, or says that the value stands in a record for large archives.
inline void put_u32(std::string& bytes, uint64_t value, ZipKind kind) {
  put(bytes, kind == ZipKind::large ? 0xffffffff : value, 4);
}

// Returns an entry of the directory.
inline std::string zip_entry(const std::string& name, const std::string& content, uint64_t at, ZipKind kind) {
  std::string entry;
  put(entry, 0x02014b50, 4);
  put(entry, 0, 12);
  put(entry, crc_of(content), 4);
  put_u32(entry, content.size(), kind);
  put_u32(entry, content.size(), kind);
  put(entry, name.size(), 2);
  put(entry, kind == ZipKind::large ? 5 + 28 : 0, 2);  // bytes of the extra field
  put(entry, 0, 10);
  put_u32(entry, at, kind);
  entry += name;
  if (kind == ZipKind::small) return entry;
  put(entry, 0xcafe, 2);  // another program's part, of one byte
  put(entry, 1, 2);
  put(entry, 7, 1);
  put(entry, 1, 2);
  put(entry, 24, 2);
  for (const uint64_t value : {uint64_t{content.size()}, uint64_t{content.size()}, at}) put(entry, value, 8);
  return entry;
}

// Returns the records behind the directory.
inline std::string zip_end(uint64_t at, uint64_t size, uint64_t members, ZipKind kind) {
  std::string end;
  if (kind == ZipKind::large) {
    put(end, 0x06064b50, 4);
    put(end, 44, 8);
    put(end, 0, 12);
    for (const uint64_t value : {members, members, size, at}) put(end, value, 8);
    put(end, 0x07064b50, 4);
    put(end, 0, 4);
    put(end, at + size, 8);
    put(end, 1, 4);
  }
  put(end, 0x06054b50, 4);
  put(end, 0, 4);
  for (int i = 0; i < 2; ++i) put(end, kind == ZipKind::large ? 0xffff : members, 2);
  put_u32(end, size, kind);
  put_u32(end, at, kind);
  put(end, 0, 2);
  return end;
}

inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members,
                          ZipKind kind = ZipKind::small) {
  std::string archive, directory;
  for (const auto& [name, content] : members) {
    directory += zip_entry(name, content, archive.size(), kind);
    put(archive, 0x04034b50, 4);
    put(archive, 0, 10);  // version, flags, method, time and date
    put(archive, crc_of(content), 4);
    put_u32(archive, content.size(), kind);
    put_u32(archive, content.size(), kind);
    put(archive, name.size(), 2);
    put(archive, 0, 2);
    archive += name + content;
  }
  return archive + directory + zip_end(archive.size(), directory.size(), members.size(), kind);
}

}  // namespace estrain::testing
