#pragma once
// The error about a word that is not known, with those that may have been meant as data.

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
