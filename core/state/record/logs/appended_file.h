#pragma once
// A file that only grows, by whole records.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/files/unique_fd.h"

namespace estrain::record {

// Size of a single write of many records.
inline constexpr size_t kWriteBytes = size_t{1} << 20;

class AppendedFile {
 public:
  // Opens or creates the file, and drops everything after the first `keep` bytes. Throws
  // Fault::io.
  AppendedFile(std::string path, uint64_t keep);

  // Appends all of `content` or, on failure (a full disk), nothing. Throws Fault::io.
  void append(std::string_view content);

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_;
};

}  // namespace estrain::record
