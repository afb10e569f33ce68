#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/base/files/files.h"

namespace estrain::testing {

// Returns the text with `to` in place of the first `from`, which must occur.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The same in a file.
inline void edit(const std::string& file, const std::string& from, const std::string& to) {
  write_file_atomically(file, replaced(read_file(file), from, to));
}

}  // namespace estrain::testing
