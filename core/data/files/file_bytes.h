#pragma once
// The content of a data file as one block of read-only memory. Plain files are mapped, so that large ones cost nothing
// to open and workers of one host share them. A file whose name ends in ".gz" is decompressed into memory once.
//
// Cheap to copy; the memory lives as long as any copy. A plain file must not be truncated while it is in use.

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
  // decompressed already if the file still has this stamp. Not while other threads open files.
  static void keep(FileBytes decompressed);
  // Maps the file, whatever its name.
  static FileBytes map(const std::string& path);
};

// The path itself if the file exists, otherwise path + ".gz" if that exists. Throws Fault::io naming both, with
// `advice`.
std::string plain_or_gzip(const std::string& path, const std::string& advice);

}  // namespace estrain::data
