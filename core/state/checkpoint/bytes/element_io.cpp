#include "core/state/checkpoint/bytes/element_io.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <new>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "kernels/digest.h"

namespace estrain::checkpoint {
namespace {

constexpr uint64_t kBlock = 4096;            // alignment for direct I/O
constexpr uint64_t kWriteBuffer = 4 << 20;   // a multiple of kBlock
constexpr size_t num_buffers = 6;            // the disk stays busy while this thread waits for a processor
constexpr uint64_t kWriteChunk = 256 << 10;  // digested and copied at a time, in cache; a multiple of 4

std::byte* aligned_memory() {
  void* memory = std::aligned_alloc(kBlock, kWriteBuffer);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

constexpr uint64_t kReadTask = 4 << 20;     // one task of a thread: the file is still read front to back
constexpr uint64_t kReadChunk = 256 << 10;  // read and digested at a time, in cache; a multiple of 4
constexpr size_t most_threads = 4;

struct ReadTask {
  size_t range;
  uint64_t begin;  // within the range
  uint64_t bytes;
};

std::vector<ReadTask> cut(const std::vector<ElementRange>& ranges) {
  std::vector<ReadTask> tasks;
  for (size_t i = 0; i < ranges.size(); ++i)
    for (uint64_t begin = 0; begin < ranges[i].bytes; begin += kReadTask)
      tasks.push_back({i, begin, std::min(kReadTask, ranges[i].bytes - begin)});
  return tasks;
}

// Gives tasks in order to the next free thread.
class Reading {
 public:
  Reading(int fd, const std::vector<ElementRange>& ranges)
      : fd_(fd), ranges_(ranges), tasks_(cut(ranges)), digests_(ranges.size()) {}

  size_t num_tasks() const { return tasks_.size(); }

  void work() {
    std::vector<uint32_t> scratch(kReadChunk / 4);
    for (size_t i = next_++; i < tasks_.size(); i = next_++)
      digests_[tasks_[i].range] += read(tasks_[i], reinterpret_cast<std::byte*>(scratch.data()));
  }

  std::vector<uint64_t> digests() const { return {digests_.begin(), digests_.end()}; }

 private:
  uint64_t read(const ReadTask& task, std::byte* scratch) const {
    const ElementRange& range = ranges_[task.range];
    uint64_t digest = 0;
    for (uint64_t done = 0; done < task.bytes; done += kReadChunk) {
      const uint64_t at = task.begin + done, span = std::min(kReadChunk, task.bytes - done);
      std::byte* to = range.out == nullptr ? scratch : range.out + at;
      read_bytes(fd_, range.offset + at, to, span);
      digest += kernels::digest(to, span, at / 4);
    }
    return digest;
  }

  int fd_;
  const std::vector<ElementRange>& ranges_;
  std::vector<ReadTask> tasks_;
  std::vector<std::atomic<uint64_t>> digests_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace

void ElementWriter::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

ElementWriter::ElementWriter(const std::string& path, int fd, uint64_t length)
    : direct_(::open(path.c_str(), O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC)), fd_(direct_ ? direct_.get() : fd) {
  if (::fallocate(fd, 0, 0, static_cast<off_t>(length)) != 0 && errno == ENOSPC)
    throw system_error("cannot write", errno);
  const size_t needed = std::min<uint64_t>(num_buffers, length / kWriteBuffer + 1);
  for (size_t i = 0; i < needed; ++i) buffers_.push_back({Memory(aligned_memory()), {}});
}

ElementWriter::~ElementWriter() {
  for (WriteBuffer& used : buffers_)
    if (used.written.valid()) used.written.wait();
}

uint64_t ElementWriter::write(uint64_t offset, const std::byte* bytes, uint64_t size) {
  append(nullptr, offset - (start_ + filled_));
  uint64_t digest = 0;
  for (uint64_t done = 0; done < size; done += kWriteChunk) {
    const uint64_t span = std::min(kWriteChunk, size - done);
    digest += kernels::digest(bytes + done, span, done / 4);
    append(bytes + done, span);
  }
  return digest;
}

void ElementWriter::append(const std::byte* bytes, uint64_t size) {
  while (size > 0) {
    const uint64_t span = std::min(size, kWriteBuffer - filled_);
    std::byte* to = buffers_[current_].bytes.get() + filled_;
    if (bytes == nullptr)
      std::memset(to, 0, span);
    else
      std::memcpy(to, std::exchange(bytes, bytes + span), span);
    filled_ += span;
    size -= span;
    if (filled_ == kWriteBuffer) send();
  }
}

void ElementWriter::send() {
  const std::byte* bytes = buffers_[current_].bytes.get();
  buffers_[current_].written = std::async(
      std::launch::async, [fd = fd_, at = start_, bytes, size = filled_] { write_bytes(fd, at, bytes, size); });
  start_ += filled_;
  filled_ = 0;
  current_ = (current_ + 1) % buffers_.size();
  if (buffers_[current_].written.valid()) buffers_[current_].written.get();
}

void ElementWriter::finish() {
  append(nullptr, (kBlock - filled_ % kBlock) % kBlock);
  if (filled_ > 0) send();
  for (WriteBuffer& used : buffers_)
    if (used.written.valid()) used.written.get();
}

std::vector<uint64_t> read_elements(int fd, const std::vector<ElementRange>& ranges) {
  Reading reading(fd, ranges);
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  const size_t threads = std::min({most_threads, processors, reading.num_tasks()});
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, [&] { reading.work(); }));
  reading.work();
  for (std::future<void>& other : others) other.get();
  return reading.digests();
}

}  // namespace estrain::checkpoint
