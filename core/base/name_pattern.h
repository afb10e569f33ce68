#pragma once
// Patterns for the names of parameters and buffers, in specs: fnmatch(3)'s, where `*` matches dots, too. The pattern
// must match the whole name: "head.*" matches "head.0.weight", not "model.head.weight".

#include <fnmatch.h>

#include <string>

namespace estrain {

inline bool fits_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace estrain
