#pragma once
// Files that may be larger than memory: reads whole lines, one at a time from either end, or the last bytes. Logs grow
// at their end: a last line without a line feed does not count. A missing file has no lines. A line longer than
// kLongestLine, which no writer produces, is kept only in part, and so reads as damaged.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/files/unique_fd.h"

namespace estrain {

constexpr size_t kLongestLine = size_t{16} << 20;

// Reads from the first line to the last. Holds a block of the file, or the file's longest line.
class LineReader {
 public:
  // Starts at `begin`, which must be the beginning of a line. Throws Fault::io.
  explicit LineReader(std::string path, uint64_t begin = 0);

  // Returns the next line, without line feed, valid until the next call. False at the end. Throws Fault::io.
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

// Reads from the last line to the first in the same way. The reader does not see lines added later.
class BackwardLineReader {
 public:
  explicit BackwardLineReader(std::string path);

  bool next(std::string_view* line);
  // The position of the last returned line in the file, including the line feed.
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

// Returns up to `size` bytes from the end; nothing if the file is missing. Ignores the bytes before `begin`, unless the
// file is shorter than `begin` and so must be a new file. Throws Fault::io.
std::string last_bytes(const std::string& path, uint64_t size, uint64_t begin = 0);

// Returns 0 if the file is missing or the size cannot be read.
uint64_t size_of_file(const std::string& path);

}  // namespace estrain
