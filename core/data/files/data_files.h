#pragma once
// The files of a [data] section; each is opened once. Data sets and the data's identity (identity.h) use the same open
// files, so nobody can exchange a file in between.

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
  content,   // one file, decompressed where its name ends in .gz
  as_it_is,  // one file, whatever its name: HDF5's, which it reads by itself
  listed,    // the files below a folder whose names have one of FileName::endings, or one file
};

struct FileName {
  std::string what;  // "training images": the same for a format, wherever the files are
  std::string path;
  FileKind kind = FileKind::content;
  std::span<const std::string_view> endings{};  // listed: as FileTree::list() takes them; of static storage
};

struct DataFile {
  std::string what;
  std::string path;
  FileBytes content;                       // of one file
  std::shared_ptr<const FileTree> tree{};  // instead of `content`: a list of many files

  const FileStamp& stamp() const { return tree ? tree->stamp() : content.stamp; }
};

// Opens all files, compressed ones in parallel. For a folder of many files it only makes the list. Throws Fault::io,
// Fault::corrupt.
std::vector<DataFile> open_files(const std::vector<FileName>& names);

// Decompresses those that are compressed, for all that open them later in this process or in copies of it
// (FileBytes::keep). Throws as open_files().
void keep_decompressed(const std::vector<FileName>& names);

// The file's current stamp in the file system; nothing if unavailable.
std::optional<FileStamp> stamp_of(const FileName& name);

}  // namespace estrain::data
