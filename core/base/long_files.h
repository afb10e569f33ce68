#pragma once
// Files that may be larger than memory: their whole lines, one at a time from either end, or their last bytes. Logs
// grow at their end: a last line without line feed does not count. A file that is not there has no lines. Of a line
// longer than kLongestLine, which nobody writes, only parts are held: it reads as damaged.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace estrain {

constexpr size_t kLongestLine = size_t{16} << 20;

// From the first line to the last. Holds a block of the file, or its longest line.
class LineReader {
 public:
  // From `begin` on, where a line begins. Throws Fault::io.
  explicit LineReader(std::string path, uint64_t begin = 0);

  // The next line, without its line feed, valid until the next call. False at the end. Throws Fault::io.
  bool next(std::string_view* line);
  // Where in the file the lines end that were handed out.
  uint64_t end() const { return end_; }

 private:
  bool read_on();

  std::string path_;
  UniqueFd file_;
  std::string block_;
  size_t begin_ = 0;      // in the block, of the line to come
  uint64_t end_;          // in the file, of the line before it
  uint64_t dropped_ = 0;  // of the line to come, bytes that the block does not hold
};

// From the last line to the first, likewise. Lines that are added later are not seen.
class BackwardLineReader {
 public:
  explicit BackwardLineReader(std::string path);

  bool next(std::string_view* line);
  // Where that line lies in the file, its line feed included.
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

// Up to `size` of them; none of a file that is not there. What lies before `begin` does not count; in a file that is
// shorter than that, and so not the one it was, all does. Throws Fault::io.
std::string last_bytes(const std::string& path, uint64_t size, uint64_t begin = 0);

// 0 for a file that is not there or cannot be asked.
uint64_t size_of_file(const std::string& path);

}  // namespace estrain
