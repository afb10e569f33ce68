#pragma once
// Examples of commands, at the end of a command's help.

#include <string>

namespace estrain::help {

// Returns "Examples:", with a line for each example, and an empty line; nothing for a command without examples.
// `command` is "train" or "pool submit"; "" is the program.
std::string examples_of(const std::string& command);

}  // namespace estrain::help
