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

inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string archive, directory;
  for (const auto& [name, content] : members) {
    const uint64_t at = archive.size();
    put(archive, 0x04034b50, 4);
    put(archive, 0, 10);  // version, flags, method, time and date
    put(archive, crc_of(content), 4);
    put(archive, content.size(), 4);
    put(archive, content.size(), 4);
    put(archive, name.size(), 2);
    put(archive, 0, 2);
    archive += name + content;
    put(directory, 0x02014b50, 4);
    put(directory, 0, 12);
    put(directory, crc_of(content), 4);
    put(directory, content.size(), 4);
    put(directory, content.size(), 4);
    put(directory, name.size(), 2);
    put(directory, 0, 12);
    put(directory, at, 4);
    directory += name;
  }
  const uint64_t at = archive.size();
  archive += directory;
  put(archive, 0x06054b50, 4);
  put(archive, 0, 4);
  put(archive, members.size(), 2);
  put(archive, members.size(), 2);
  put(archive, directory.size(), 4);
  put(archive, at, 4);
  put(archive, 0, 2);
  return archive;
}

}  // namespace estrain::testing
