#pragma once
// A mapping of a file in memory that processes share. It grows with what is laid out in it.

#include <cstddef>
#include <cstdint>

#include "core/base/files/unique_fd.h"

namespace estrain::comm {

class SharedMapping {
 public:
  // A file in memory of that size. Throws Fault::io.
  static UniqueFd create(uint64_t bytes);

  // Maps the first `bytes` of `fd`, which the caller keeps open. Throws Fault::io, as the others do.
  SharedMapping(int fd, uint64_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  // Maps so much in place of what was mapped; addresses change.
  void map(uint64_t bytes);
  // Makes the file so large, and maps all of it.
  void resize(uint64_t bytes);
  // Gives memory [begin, end) back; it reads as zero from now on.
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
