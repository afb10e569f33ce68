#pragma once
// Patterns for the names of parameters and buffers, in specs: fnmatch(3)'s, where `*` matches dots, too.

#include <fnmatch.h>

#include <string>

namespace estrain {

inline bool fits_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace estrain
