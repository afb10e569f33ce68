#pragma once
// The files of a [data] section; each is opened once. Data sets and the data's identity (identity.h) use the same open
// files, so nobody can exchange a file in between.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/file_bytes.h"
#include "core/data/file_tree.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

enum class FileKind {
  content,   // one file, decompressed if its name ends in .gz
  as_it_is,  // one file as it is, whatever its name: HDF5 reads it itself
  images,    // the JPEG and PNG files in the subfolders of a folder
  shards,    // a tar file, or all tar files in a folder
};

struct FileName {
  std::string what;  // "training images": the same for a format, wherever the files are
  std::string path;
  FileKind kind = FileKind::content;
};

struct DataFile {
  std::string what;
  std::string path;
  FileBytes content;                       // of one file
  std::shared_ptr<const FileTree> tree{};  // instead of `content`: a list of many files

  const FileStamp& stamp() const { return tree ? tree->stamp() : content.stamp; }
};

// In a fixed order for each format, training before test; empty for synthetic data.
//   idx         images, labels; of the test set too, where there is one
//   cifar10     the five training files, the test file; cifar100: one and one
//   hdf5, text, tokens, images, webdataset   one; a second one where data.test_path names it
// Throws Fault::spec if a required key is empty, Fault::io if an idx folder lacks a standard file.
std::vector<FileName> file_names(const spec::DataSection& section);

// Opens all files, compressed ones in parallel. For a folder of many files it only makes the list. Throws Fault::io,
// Fault::corrupt.
std::vector<DataFile> open_files(const std::vector<FileName>& names);

// The file's current stamp in the file system; nothing if unavailable.
std::optional<FileStamp> stamp_of(const FileName& name);

}  // namespace estrain::data
