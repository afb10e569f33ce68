#pragma once
// A FileStamp is the file system's metadata of a file. Equal stamps mean the same bytes: writing to a file or replacing
// the file changes a time or the inode number. Two writes within a tick of the kernel's clock, some milliseconds, may
// leave equal stamps.

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::data {

struct FileStamp {
  uint64_t device = 0, inode = 0;  // meaningful only on one host
  uint64_t size = 0;
  int64_t modified_ns = 0;  // change of the content; a user can set this time
  int64_t changed_ns = 0;   // change of the content, name or mode; cannot be set

  bool operator==(const FileStamp&) const = default;

  static FileStamp of(const struct stat& status);
  static std::optional<FileStamp> of(const std::string& path);  // follows links; nothing if stat(2) fails
};

}  // namespace estrain::data
