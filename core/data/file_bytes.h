#pragma once
// The content of a data file as one block of read-only memory: plain files are mapped, so that large ones cost nothing
// to open and workers of one host share them; a name that ends in ".gz" is decompressed into memory, once.
//
// Cheap to copy; the memory lives as long as a copy does. A plain file must not be cut short while it is in use.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/data/file_stamp.h"

namespace estrain::data {

struct FileBytes {
  std::shared_ptr<const std::byte> owner;
  std::span<const std::byte> bytes;
  FileStamp stamp{};  // of the file that was opened

  size_t size() const { return bytes.size(); }
  const std::byte* data() const { return bytes.data(); }

  // Throws Fault::io where the file is missing or cannot be read, Fault::corrupt where a .gz file is no gzip file, is
  // truncated or fails its checksum.
  static FileBytes open(const std::string& path);
  // Mapped, whatever its name.
  static FileBytes map(const std::string& path);
};

// The path itself where there is such a file, else path + ".gz" where there is that. Throws Fault::io naming both, with
// `advice`.
std::string plain_or_gzip(const std::string& path, const std::string& advice);

}  // namespace estrain::data
