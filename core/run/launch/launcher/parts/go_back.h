#pragma once
// Ends the launcher of a run which continues from an older checkpoint (audit.redo) or with another batch size: the
// program replaces itself by a new launch.

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace estrain::launch {

struct GoBack : Error {
  GoBack(Error error, std::vector<std::string> words) : Error(std::move(error)), arguments(std::move(words)) {}

  std::vector<std::string> arguments;  // of the new launch, the program first
};

}  // namespace estrain::launch
