#pragma once
// How the launcher of a run ends if the run continues from a checkpoint, an older one (audit.redo) or with another
// batch size: the program replaces itself by a new launch.

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
