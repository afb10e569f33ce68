#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/base/files/files.h"

namespace estrain::testing {

// Replaces the first `from` in the file by `to`; `from` must occur.
inline void edit(const std::string& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file_atomically(file, text.replace(at, from.size(), to));
}

}  // namespace estrain::testing
