#pragma once
// A FileBytes is the content of a data file as a block of read-only memory. A plain file is mapped: a large file costs
// nothing to open, and the workers of a host share the memory. A file whose name ends in ".gz" is decompressed into
// memory by each open(), unless keep() has the content.
//
// A FileBytes is cheap to copy; the memory lives as long as the last copy. A plain file must not be truncated during
// use. An empty file has no bytes and no owner.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/data/files/file_stamp.h"

namespace estrain::data {

struct FileBytes {
  std::shared_ptr<const std::byte> owner;  // keeps the memory of `bytes`
  std::span<const std::byte> bytes;        // the content, decompressed
  FileStamp stamp{};                       // of the file on disk: of a .gz file, the compressed file

  size_t size() const { return bytes.size(); }
  const std::byte* data() const { return bytes.data(); }

  // Throws Fault::io if the file is missing or unreadable, Fault::corrupt if a .gz file is not a gzip file, is
  // truncated or fails its checksum.
  static FileBytes open(const std::string& path);
  // Keeps the content of a .gz file until the process ends. Later calls of open() return this content if the .gz file
  // still has the content's stamp. Copies of this process (core/base/process/fork_server.h) have the content too. Must
  // not be called while other threads open files.
  static void keep(FileBytes decompressed);
  // Maps the file as it is on disk: a .gz file stays compressed. Throws Fault::io.
  static FileBytes map(const std::string& path);
};

// Returns `path` if the file exists, otherwise path + ".gz" if the .gz file exists. Throws Fault::io naming both files,
// with `advice`.
std::string plain_or_gzip(const std::string& path, const std::string& advice);

}  // namespace estrain::data
