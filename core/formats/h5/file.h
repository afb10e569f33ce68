#pragma once
// An HDF5 file on disk.
//
//   File file = File::open("train.h5");
//   DatasetObject images = file.root().dataset("images");     // shape(), type(), offset(), read_rows()
//
// Objects keep their file open. HDF5 has a global lock: a File may be used by one thread at a time, different
// Files by several threads, without a gain in speed. Errors: Fault::io if the file cannot be opened, created or
// written (with the system's reason), Fault::corrupt if the file is truncated, damaged or not an HDF5 file. A
// damaged file may also crash the HDF5 library, so checkpoints are checked by other means first
// (core/state/checkpoint).

#include <string>

#include "core/formats/h5/group.h"

namespace estrain::h5 {

class File {
 public:
  static File open(const std::string& path);             // to read
  static File open_for_update(const std::string& path);  // to read and write
  static File create(const std::string& path);           // replaces an existing file

  Group root() const;
  const std::string& path() const { return path_; }

  // Writes everything and closes the file. The file's groups and data sets must be destroyed before. Throws, which a
  // destructor cannot.
  void close();

 private:
  File(Handle id, std::string path) : id_(std::move(id)), path_(std::move(path)) {}

  Handle id_;
  std::string path_;
};

}  // namespace estrain::h5
