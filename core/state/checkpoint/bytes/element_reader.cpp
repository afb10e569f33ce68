#include "core/state/checkpoint/bytes/element_reader.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "core/state/checkpoint/bytes/byte_io.h"
#include "kernels/digest.h"

namespace estrain::checkpoint {
namespace {

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
