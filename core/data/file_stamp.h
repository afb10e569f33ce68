#pragma once
// What the file system says of a file without a look into it. Equal stamps mean the same bytes: whoever writes to a
// file, or puts another in its place, changes one of the two times or the number of the file.

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::data {

struct FileStamp {
  uint64_t device = 0, inode = 0;  // of one host alone
  uint64_t size = 0;
  int64_t modified_ns = 0;  // the content; a user can set it
  int64_t changed_ns = 0;   // the content, its name or its mode; nobody can set it

  bool operator==(const FileStamp&) const = default;

  static FileStamp of(const struct stat& status);
  static std::optional<FileStamp> of(const std::string& path);  // nothing where the system shows none
};

}  // namespace estrain::data
