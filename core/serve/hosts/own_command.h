#pragma once
// A command of this program, which the pool runs as a user would: check, train, resize, agent, ….

#include <string>
#include <utility>
#include <vector>

#include "core/base/process/child_process.h"

namespace estrain::serve {

// `words`: without the program's name. `output`: the file that takes what it says.
inline ChildOptions own_command(const std::vector<std::string>& words, std::string output) {
  ChildOptions options;
  options.same_program = true;
  options.arguments = {"estrain"};
  options.arguments.insert(options.arguments.end(), words.begin(), words.end());
  options.output = std::move(output);
  return options;
}

}  // namespace estrain::serve
