#pragma once
// A mapping of a file in memory shared by processes. The mapping can grow.

#include <cstddef>
#include <cstdint>

#include "core/base/files/unique_fd.h"

namespace estrain::comm {

class SharedMapping {
 public:
  // Creates a file in memory of `bytes` bytes. Throws Fault::io.
  static UniqueFd create(uint64_t bytes);

  // Maps the first `bytes` of `fd`, which the caller keeps open. Throws Fault::io, as do map() and resize().
  SharedMapping(int fd, uint64_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  // Maps `bytes` bytes in place of the earlier mapping; addresses change.
  void map(uint64_t bytes);
  // Makes the file `bytes` long, and maps all of the file.
  void resize(uint64_t bytes);
  // Gives memory [begin, end) back; the memory reads as zero from now on.
  void release(uint64_t begin, uint64_t end);

  uint64_t bytes() const { return bytes_; }
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

 private:
  void unmap();

  int fd_;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace estrain::comm
