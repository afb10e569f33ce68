#pragma once
// The words that bash completes: commands, their options, words that an option takes, keys behind --set, topics behind
// help.

#include <string>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::help {

// The file for bash.
std::string completion(const std::vector<Verb>& verbs);

}  // namespace estrain::help
