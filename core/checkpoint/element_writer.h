#pragma once
// Writes the elements of a checkpoint past the page cache: in large aligned pieces, one being filled while the other is
// on its way to the disk.
//
// Why: on a training machine, half a gigabyte through the page cache costs kernel time and cached training data, and
// can stall for seconds where other programs write too. Through a copy of ours it costs the copy, with the digest taken
// on the way. Where the file system has no direct I/O the same pieces go through the page cache.

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"

namespace estrain::checkpoint {

class ElementWriter {
 public:
  // `path` is open for writing as `fd`; about `length` bytes will be written (space for them is reserved: a full disk
  // is known before anything is written). What is between the elements is overwritten with zeros: write it afterwards.
  ElementWriter(const std::string& path, int fd, uint64_t length);
  ~ElementWriter();

  // Writes `bytes` (4-byte aligned) at `offset`, which is behind everything written before; returns their digest.
  // Throws Fault::io, possibly for an earlier call.
  uint64_t write(uint64_t offset, const std::byte* bytes, uint64_t size);

  // Waits until everything is written. The file may end up to a block behind the last element.
  void finish();

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], FreeMemory>;
  struct Piece {
    Memory bytes;
    std::future<void> written;  // valid while it is on its way
  };

  void append(const std::byte* bytes, uint64_t size);  // nullptr: zeros
  void send();

  UniqueFd direct_;
  int fd_;
  std::vector<Piece> pieces_;  // used in turn
  size_t current_ = 0;         // the one being filled
  uint64_t start_ = 0;         // of it in the file
  uint64_t filled_ = 0;        // bytes of it
};

}  // namespace estrain::checkpoint
