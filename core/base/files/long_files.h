#pragma once
// Files that may be larger than memory: reads whole lines, one at a time from either end, or the last bytes. Logs grow
// at their end: a last line without a line feed does not count. A missing file has no lines. A line longer than
// kLongestLine, which no writer produces, is kept in part only, so it reads as damaged.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/files/unique_fd.h"

namespace estrain {

constexpr size_t kLongestLine = size_t{16} << 20;

// Reads from the first line to the last. Holds a block of the file, or its longest line.
class LineReader {
 public:
  // Starts at `begin`, which must be the beginning of a line. Throws Fault::io.
  explicit LineReader(std::string path, uint64_t begin = 0);

  // The next line, without its line feed, valid until the next call. False at the end. Throws Fault::io.
  bool next(std::string_view* line);
  // The position in the file after the last returned line.
  uint64_t end() const { return end_; }

 private:
  bool read_on();

  std::string path_;
  UniqueFd file_;
  std::string block_;
  size_t begin_ = 0;      // of the next line, in the block
  uint64_t end_;          // of the previous line, in the file
  uint64_t dropped_ = 0;  // bytes of the next line that the block no longer holds
};

// Reads from the last line to the first in the same way. It does not see lines added later.
class BackwardLineReader {
 public:
  explicit BackwardLineReader(std::string path);

  bool next(std::string_view* line);
  // The position of that line in the file, including its line feed.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }

 private:
  uint64_t line_begin(uint64_t end);
  void read_on(uint64_t end);

  std::string path_;
  UniqueFd file_;
  std::string block_;
  uint64_t block_begin_ = 0;  // in the file
  uint64_t begin_ = 0, end_ = 0;
};

// Up to `size` bytes from the end; none if the file is missing. Ignores the bytes before `begin`, unless the file is
// shorter than that and so must be a new one. Throws Fault::io.
std::string last_bytes(const std::string& path, uint64_t size, uint64_t begin = 0);

// 0 if the file is missing or its size cannot be read.
uint64_t size_of_file(const std::string& path);

}  // namespace estrain
