#include "core/base/files/long_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/files/input_file.h"

namespace estrain {
namespace {

constexpr size_t kBlock = size_t{1} << 18;

uint64_t size_of(const UniqueFd& file, const std::string& path) {
  struct stat info {};
  if (file && ::fstat(file.get(), &info) != 0) throw system_error("cannot read " + path, errno);
  return static_cast<uint64_t>(info.st_size);
}

// Reads up to `size` bytes from `offset`; fewer at the end of the file.
size_t read_at(const UniqueFd& file, const std::string& path, uint64_t offset, char* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(file.get(), out + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot read " + path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

}  // namespace

LineReader::LineReader(std::string path, uint64_t begin)
    : path_(std::move(path)), file_(open_input_if_present(path_)), end_(begin) {
  if (file_ && ::lseek(file_.get(), static_cast<off_t>(begin), SEEK_SET) < 0)
    throw system_error("cannot read " + path_, errno);
}

bool LineReader::next(std::string_view* line) {
  size_t searched = begin_;
  for (;;) {
    const size_t end = block_.find('\n', searched);
    if (end != std::string::npos) {
      *line = std::string_view(block_).substr(begin_, end - begin_);
      begin_ = end + 1;
      end_ += std::exchange(dropped_, 0) + line->size() + 1;
      return true;
    }
    searched = std::min(block_.size() - begin_, kLongestLine);
    if (!read_on()) return false;
  }
}

// Drops the lines already returned and the middle of a too long line. Then reads as many bytes as remain, at least a
// block. False at the end.
bool LineReader::read_on() {
  if (!file_) return false;
  block_.erase(0, begin_);
  begin_ = 0;
  if (block_.size() > kLongestLine) {
    dropped_ += block_.size() - kLongestLine;
    block_.resize(kLongestLine);
  }
  const size_t kept = block_.size(), more = std::max(kBlock, kept);
  block_.resize(kept + more);
  ssize_t got = 0;
  do got = ::read(file_.get(), block_.data() + kept, more);
  while (got < 0 && errno == EINTR);
  if (got < 0) throw system_error("cannot read " + path_, errno);
  block_.resize(kept + static_cast<size_t>(got));
  return got > 0;
}

BackwardLineReader::BackwardLineReader(std::string path)
    : path_(std::move(path)), file_(open_input_if_present(path_)), block_begin_(size_of(file_, path_)) {
  begin_ = line_begin(block_begin_);
}

bool BackwardLineReader::next(std::string_view* line) {
  if (begin_ == 0) return false;
  end_ = begin_;
  begin_ = line_begin(end_ - 1);
  *line = std::string_view(block_).substr(begin_ - block_begin_, end_ - 1 - begin_);
  return true;
}

// Returns the position after the last line feed before `end`. Afterwards the block contains everything between this
// position and `end`.
uint64_t BackwardLineReader::line_begin(uint64_t end) {
  uint64_t unsearched = end;
  for (;;) {
    if (unsearched > block_begin_) {
      const void* feed = ::memrchr(block_.data(), '\n', unsearched - block_begin_);
      if (feed != nullptr)
        return block_begin_ + static_cast<uint64_t>(static_cast<const char*>(feed) - block_.data()) + 1;
    }
    if (block_begin_ == 0) return 0;
    unsearched = block_begin_;
    read_on(end);
  }
}

// Drops the bytes after `end` and beyond the longest line. Then reads as many bytes as remain, at least a block.
void BackwardLineReader::read_on(uint64_t end) {
  const uint64_t kept = std::min<uint64_t>(end - block_begin_, kLongestLine);
  const uint64_t more = std::min(block_begin_, std::max<uint64_t>(kBlock, kept));
  std::string block(more + kept, '\0');
  if (read_at(file_, path_, block_begin_ - more, block.data(), more) != more)
    throw Error::make(Fault::io, "cannot read {}: it became shorter while it was read", path_);
  std::memcpy(block.data() + more, block_.data(), kept);
  block_ = std::move(block);
  block_begin_ -= more;
}

std::string last_bytes(const std::string& path, uint64_t size, uint64_t begin) {
  const UniqueFd file = open_input_if_present(path);
  const uint64_t whole = size_of(file, path);
  std::string bytes(std::min(size, whole < begin ? whole : whole - begin), '\0');
  bytes.resize(read_at(file, path, whole - bytes.size(), bytes.data(), bytes.size()));
  return bytes;
}

uint64_t size_of_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

}  // namespace estrain
