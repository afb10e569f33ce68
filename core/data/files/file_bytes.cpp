#include "core/data/files/file_bytes.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/data/files/mapped_files.h"

namespace estrain::data {
namespace {

using Memory = std::shared_ptr<std::byte>;

Memory adopt_mapping(void* address, size_t size) {
  return Memory(static_cast<std::byte*>(address), [size](std::byte* start) { ::munmap(start, size); });
}

Memory anonymous_memory(size_t size, const std::string& path) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw system_error(fmt::format("{}: no memory for {} bytes", path, size), errno);
  ::madvise(address, size, MADV_HUGEPAGE);  // samples are read in random order: huge pages mean fewer page faults and
                                            // TLB misses
  return adopt_mapping(address, size);
}

// Decompresses all members of a gzip file.
class Gunzip {
 public:
  Gunzip(const std::string& path, std::span<const std::byte> input) : path_(path), input_(input) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) throw Error(Fault::bug, "zlib does not initialise");
  }
  ~Gunzip() { inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  FileBytes run() {
    grow(expected_size());
    for (;;) {
      const int result = step();
      if (result == Z_STREAM_END) {
        if (unread() == 0) return {output_, {output_.get(), written_}, {}};
        inflateReset(&stream_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw corrupt(stream_.msg ? stream_.msg : "not a gzip file");
      } else if (written_ == capacity_) {
        grow(capacity_ * 2);
      } else if (unread() == 0) {
        throw corrupt("truncated");
      }
    }
  }

 private:
  static constexpr size_t largest_step = size_t{1} << 30;  // zlib counts in 32 bits

  // The last four bytes hold the size modulo 2^32, and deflate shrinks by at most a factor of 1032. A wrong guess costs
  // a copy.
  size_t expected_size() const {
    uint32_t recorded = 0;
    if (input_.size() >= 18) std::memcpy(&recorded, input_.data() + input_.size() - 4, 4);
    return std::clamp(size_t{recorded}, size_t{4096}, input_.size() * 1032 + 4096);
  }

  void grow(size_t capacity) {
    Memory larger = anonymous_memory(capacity, path_);
    if (written_ > 0) std::memcpy(larger.get(), output_.get(), written_);
    output_ = std::move(larger);
    capacity_ = capacity;
  }

  int step() {
    const size_t room = std::min(capacity_ - written_, largest_step);
    const size_t offered = std::min(unread(), largest_step);
    stream_.next_out = reinterpret_cast<Bytef*>(output_.get() + written_);
    stream_.avail_out = static_cast<uInt>(room);
    stream_.avail_in = static_cast<uInt>(offered);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    read_ += offered - stream_.avail_in;
    written_ += room - stream_.avail_out;
    return result;
  }

  size_t unread() const { return input_.size() - read_; }

  Error corrupt(const char* what) const {
    return Error::make(Fault::corrupt, "{}: decompression failed after {} of {} bytes: {}", path_, read_, input_.size(),
                       what)
        .advise("download the file again; `gzip -t` checks it");
  }

  const std::string& path_;
  std::span<const std::byte> input_;
  z_stream stream_{};
  Memory output_;
  size_t capacity_ = 0, written_ = 0, read_ = 0;
};

std::vector<FileBytes>& kept() {
  static std::vector<FileBytes> contents;
  return contents;
}

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_there(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

FileBytes FileBytes::map(const std::string& path) {
  const UniqueFd fd = open_input(path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw system_error(path, errno);
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return {{}, {}, FileStamp::of(status)};
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) throw system_error(path + ": mapping failed", errno);
  note_mapping(address, size, path);
  Memory memory(static_cast<std::byte*>(address), [size](std::byte* start) {
    forget_mapping(start);
    ::munmap(start, size);
  });
  return {memory, {memory.get(), size}, FileStamp::of(status)};
}

FileBytes FileBytes::open(const std::string& path) {
  FileBytes raw = map(path);
  if (!path.ends_with(".gz")) return raw;
  if (const auto at = std::ranges::find(kept(), raw.stamp, &FileBytes::stamp); at != kept().end()) return *at;
  ::madvise(const_cast<std::byte*>(raw.data()), raw.size(), MADV_SEQUENTIAL);
  FileBytes content = Gunzip(path, raw.bytes).run();
  content.stamp = raw.stamp;
  return content;
}

void FileBytes::keep(FileBytes decompressed) { kept().push_back(std::move(decompressed)); }

std::string plain_or_gzip(const std::string& path, const std::string& advice) {
  if (is_file(path)) return path;
  if (is_file(path + ".gz")) return path + ".gz";
  if (is_there(path)) (void)open_input(path);  // throws, naming what it is
  throw Error::make(Fault::io, "{}: no such file, nor {}.gz", path, path).advise(advice);
}

}  // namespace estrain::data
