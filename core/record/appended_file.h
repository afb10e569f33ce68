#pragma once
// A file that only grows, by whole records.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace estrain::record {

// What is written at once when many records are.
inline constexpr size_t kWriteBytes = size_t{1} << 20;

class AppendedFile {
 public:
  // Opens the file, which is made where there is none, and drops what is behind its first `keep` bytes. Throws
  // Fault::io.
  AppendedFile(std::string path, uint64_t keep);

  // Adds all of `content` or, where the system refuses (a full disk), nothing. Throws Fault::io.
  void append(std::string_view content);

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_;
};

}  // namespace estrain::record
