#include "core/checkpoint/bytes/element_reader.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "core/checkpoint/bytes/byte_io.h"
#include "kernels/digest.h"

namespace estrain::checkpoint {
namespace {

constexpr uint64_t kReadPiece = 4 << 20;    // a thread's piece: the file is still read front to back
constexpr uint64_t kReadChunk = 256 << 10;  // read and digested at a time, in cache; a multiple of 4
constexpr size_t most_threads = 4;

struct Piece {
  size_t range;
  uint64_t begin;  // within the range
  uint64_t bytes;
};

std::vector<Piece> cut(const std::vector<ElementRange>& ranges) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < ranges.size(); ++i)
    for (uint64_t begin = 0; begin < ranges[i].bytes; begin += kReadPiece)
      pieces.push_back({i, begin, std::min(kReadPiece, ranges[i].bytes - begin)});
  return pieces;
}

// Gives pieces in order to the next thread that asks.
class Reading {
 public:
  Reading(int fd, const std::vector<ElementRange>& ranges)
      : fd_(fd), ranges_(ranges), pieces_(cut(ranges)), digests_(ranges.size()) {}

  size_t num_pieces() const { return pieces_.size(); }

  void work() {
    std::vector<uint32_t> scratch(kReadChunk / 4);
    for (size_t i = next_++; i < pieces_.size(); i = next_++)
      digests_[pieces_[i].range] += read(pieces_[i], reinterpret_cast<std::byte*>(scratch.data()));
  }

  std::vector<uint64_t> digests() const { return {digests_.begin(), digests_.end()}; }

 private:
  uint64_t read(const Piece& part, std::byte* scratch) const {
    const ElementRange& range = ranges_[part.range];
    uint64_t digest = 0;
    for (uint64_t done = 0; done < part.bytes; done += kReadChunk) {
      const uint64_t at = part.begin + done, span = std::min(kReadChunk, part.bytes - done);
      std::byte* to = range.out == nullptr ? scratch : range.out + at;
      read_bytes(fd_, range.offset + at, to, span);
      digest += kernels::digest(to, span, at / 4);
    }
    return digest;
  }

  int fd_;
  const std::vector<ElementRange>& ranges_;
  std::vector<Piece> pieces_;
  std::vector<std::atomic<uint64_t>> digests_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace

std::vector<uint64_t> read_elements(int fd, const std::vector<ElementRange>& ranges) {
  Reading reading(fd, ranges);
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  const size_t threads = std::min({most_threads, processors, reading.num_pieces()});
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, [&] { reading.work(); }));
  reading.work();
  for (std::future<void>& other : others) other.get();
  return reading.digests();
}

}  // namespace estrain::checkpoint
