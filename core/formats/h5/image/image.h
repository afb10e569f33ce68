#pragma once
// An HDF5 file whose structure (everything but the elements of its datasets) is in memory. The caller writes and reads
// the datasets' elements at the offsets from DatasetObject::offset().
//
// Why: the library never touches the disk. A checkpoint's elements go from the state to the file in our own large
// writes; a full disk is a plain errno and leaves no half-closed HDF5 file; and the library parses exactly the bytes
// that were checked against a checksum.
//
//   FileImage image = FileImage::create({.user_block = 1024});
//   uint64_t at = image.root().create_dataset("w", Type::f32, {1000}).offset().value();
//   image.finish();                       // objects of the image must be gone by now
//   image.read(0, buffer, size)           // of the structure; copy it to the file, and write "w" at `at`
//
// Consecutively created datasets are contiguous, without gaps. Their elements must not be read or written through HDF5,
// which would see zeros.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "core/formats/h5/group.h"

namespace estrain::h5 {

// A SparseBytes is a sparse view of a large file: pages exist only where something was written.
class SparseBytes {
 public:
  void write(uint64_t offset, const std::byte* bytes, size_t size);
  // Bytes never written read as zero.
  void read(uint64_t offset, std::byte* bytes, size_t size) const;

 private:
  static constexpr size_t page_size = 4096;
  using Page = std::array<std::byte, page_size>;

  // Calls visit(page number, offset in the page, position in the span, size) for every page that the span touches.
  template <typename Visit>
  static void for_each_page(uint64_t offset, size_t size, Visit&& visit);

  std::map<uint64_t, std::unique_ptr<Page>> pages_;
};

struct ImageOptions {
  uint64_t user_block = 512;       // bytes in front that HDF5 does not use: a power of two, at least 512
  uint64_t metadata_block = 4096;  // bytes of structure allocated at a time; the rest of the last block is a gap
};

class FileImage {
 public:
  static FileImage create(const ImageOptions& options);
  // Opens the structure of a file of `length` bytes. Throws Fault::corrupt if HDF5 cannot parse the structure; `path`
  // is for messages.
  static FileImage open(SparseBytes structure, uint64_t length, const std::string& path);

  Group root() const;

  // Closes a created image: afterwards length() and read() give the required content of the file.
  void finish();
  uint64_t length() const { return store_->length; }
  void read(uint64_t offset, std::byte* bytes, size_t size) const { store_->bytes.read(offset, bytes, size); }

  // HDF5's storage; public only for the file driver.
  struct Store {
    SparseBytes bytes;
    uint64_t length = 0;
  };

 private:
  FileImage(std::unique_ptr<Store> store, Handle id, std::string path)
      : store_(std::move(store)), id_(std::move(id)), path_(std::move(path)) {}

  std::unique_ptr<Store> store_;  // outlives id_
  Handle id_;
  std::string path_;
};

}  // namespace estrain::h5
