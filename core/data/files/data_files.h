#pragma once
// Opens the files of a [data] section. Each file is opened once: data sets and the data's identity (identity.h) use the
// same open files, and no file can be exchanged in between.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/files/file_bytes.h"
#include "core/data/files/file_tree.h"

namespace estrain::data {

enum class FileKind {
  content,   // a file, decompressed if the name ends in .gz
  as_it_is,  // a file, not decompressed, for example because the HDF5 library opens the file by path
  listed,    // all files below a folder with a name in FileName::endings, or a single file
};

struct FileName {
  std::string what;  // "training images": does not depend on where the files of a format are
  std::string path;
  FileKind kind = FileKind::content;
  std::span<const std::string_view> endings{};  // listed: as for FileTree::list(); of static storage
};

struct DataFile {
  std::string what;
  std::string path;
  FileBytes content;                       // of a single file
  std::shared_ptr<const FileTree> tree{};  // instead of `content`: a list of many files
  std::string samples{};                   // instead of `content`: samples made by code, in words

  const FileStamp& stamp() const { return tree ? tree->stamp() : content.stamp; }
};

// Opens all files, compressed files in parallel. Of a folder of many files, only the list is made. Throws Fault::io,
// Fault::corrupt.
std::vector<DataFile> open_files(const std::vector<FileName>& names);

// Decompresses the compressed files for later calls of open_files() in this process or in copies of this process
// (FileBytes::keep). Throws as open_files().
void keep_decompressed(const std::vector<FileName>& names);

// Returns the file's current stamp in the file system, or nothing if the file system tells no stamp.
std::optional<FileStamp> stamp_of(const FileName& name);

}  // namespace estrain::data
