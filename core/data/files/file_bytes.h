#pragma once
// A FileBytes is the content of a data file as a block of read-only memory. A plain file is mapped: a large file costs
// nothing to open, and the workers of a host share the memory. A file with a name in ".gz" is decompressed into memory
// once.
//
// A FileBytes is cheap to copy; the memory lives as long as the last copy. A plain file must not be truncated during
// use.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/data/files/file_stamp.h"

namespace estrain::data {

struct FileBytes {
  std::shared_ptr<const std::byte> owner;
  std::span<const std::byte> bytes;
  FileStamp stamp{};  // stamp of the opened file

  size_t size() const { return bytes.size(); }
  const std::byte* data() const { return bytes.data(); }

  // Throws Fault::io if the file is missing or unreadable, Fault::corrupt if a .gz file is not a gzip file, is
  // truncated or fails its checksum.
  static FileBytes open(const std::string& path);
  // Later calls of open() in this process, and in copies of it (core/base/process/fork_server.h), find this content
  // decompressed already if the file still has this stamp. Must not be called while other threads open files.
  static void keep(FileBytes decompressed);
  // Maps the file, whatever the name.
  static FileBytes map(const std::string& path);
};

// Returns `path` if the file exists, otherwise path + ".gz" if the .gz file exists. Throws Fault::io naming both files,
// with `advice`.
std::string plain_or_gzip(const std::string& path, const std::string& advice);

}  // namespace estrain::data
