#pragma once
// An HDF5 file whose structure (everything but the elements of its datasets) is in memory while its datasets are
// written and read by someone else, at the offsets that Dataset::offset() tells.
//
// Why: the library never touches the disk. A checkpoint's elements go from the state to the file in large writes of
// ours; a full disk is an errno of ours and leaves no half-closed HDF5 file behind; and the bytes that were checked
// against a checksum are the very bytes that the library parses.
//
//   Image image = Image::create({.user_block = 1024});
//   uint64_t at = image.root().create_dataset("w", Type::f32, {1000}).offset().value();
//   image.finish();                       // objects of the image must be gone by now
//   image.read(0, buffer, size)           // of the structure; copy it to the file, and write "w" at `at`
//
// Datasets made one after the other lie one behind the other, without gaps. Their elements must not be read or written
// through HDF5: it would see zeros.

#include <memory>

#include "core/h5/group.h"
#include "core/h5/sparse_bytes.h"

namespace estrain::h5 {

struct ImageOptions {
  uint64_t user_block = 512;       // bytes in front that HDF5 leaves alone: a power of two, at least 512
  uint64_t metadata_block = 4096;  // bytes of structure allocated at a time; what the last one has left over is a gap
};

class Image {
 public:
  static Image create(const ImageOptions& options);
  // The structure of a file of `length` bytes. Throws Fault::corrupt where HDF5 cannot make sense of it; `path` is for
  // messages.
  static Image open(SparseBytes structure, uint64_t length, const std::string& path);

  Group root() const;

  // Closes a created image: from now on length() and read() tell what the file must hold.
  void finish();
  uint64_t length() const { return store_->length; }
  void read(uint64_t offset, std::byte* bytes, size_t size) const { store_->bytes.read(offset, bytes, size); }

  // What HDF5 works on; public for the file driver alone.
  struct Store {
    SparseBytes bytes;
    uint64_t length = 0;
  };

 private:
  Image(std::unique_ptr<Store> store, Handle id, std::string path)
      : store_(std::move(store)), id_(std::move(id)), path_(std::move(path)) {}

  std::unique_ptr<Store> store_;  // outlives id_
  Handle id_;
  std::string path_;
};

}  // namespace estrain::h5
