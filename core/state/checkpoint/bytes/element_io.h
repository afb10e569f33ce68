#pragma once
// Writes and reads the elements of a checkpoint's tensors, and digests the elements at the same time.

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/files/unique_fd.h"

namespace estrain::checkpoint {

// An ElementWriter writes the elements of a checkpoint past the page cache, in large aligned buffers: a buffer is
// filled while others are being written.
//
// Why: on a training machine, half a gigabyte through the page cache costs kernel time, evicts cached training data,
// and can stall for seconds if other programs write, too. Our own copy costs only the copying, and computes the digest
// at the same time. On a file system without direct I/O, the same buffers go through the page cache.
class ElementWriter {
 public:
  // `path` is open for writing as `fd`; about `length` bytes will be written (reserved, so a full disk shows before the
  // first write). The gaps between elements are overwritten with zeros: write the gaps' content afterwards.
  ElementWriter(const std::string& path, int fd, uint64_t length);
  ~ElementWriter();

  // Writes `bytes` (4-byte aligned) at `offset`, which must be after everything written before; returns the digest.
  // Throws Fault::io, possibly for an earlier call.
  uint64_t write(uint64_t offset, const std::byte* bytes, uint64_t size);

  // Waits until everything is written. The file may extend up to a block beyond the last element.
  void finish();

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], FreeMemory>;
  struct WriteBuffer {
    Memory bytes;
    std::future<void> written;  // valid while the buffer is being written
  };

  void append(const std::byte* bytes, uint64_t size);  // nullptr: zeros
  void send();

  UniqueFd direct_;
  int fd_;
  std::vector<WriteBuffer> buffers_;  // used in turn
  size_t current_ = 0;                // the buffer being filled
  uint64_t start_ = 0;                // the current buffer's offset in the file
  uint64_t filled_ = 0;               // bytes in the current buffer
};

struct ElementRange {
  uint64_t offset;  // in the file
  uint64_t bytes;
  std::byte* out;  // 4-byte aligned; nullptr: digest only
};

// Reads and digests the elements of many tensors with a few threads: a single one is slower than the page cache.
// Returns the digest of each range. Throws Fault::corrupt if the file ends before a range does, Fault::io.
std::vector<uint64_t> read_elements(int fd, const std::vector<ElementRange>& ranges);

}  // namespace estrain::checkpoint
