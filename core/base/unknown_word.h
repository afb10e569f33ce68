#pragma once
// The error about an unknown word, with the likely words as data.

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace estrain {

struct UnknownWord : Error {
  UnknownWord(Error error, std::vector<std::string> words) : Error(std::move(error)), similar(std::move(words)) {}

  std::vector<std::string> similar;  // the nearest first; empty: nothing is near
};

}  // namespace estrain
