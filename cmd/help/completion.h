#pragma once
// The words that shells complete: commands, options, values of an option, keys after --set, topics after
// help.

#include <string>
#include <string_view>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::help {

inline constexpr std::string_view shells[] = {"bash", "zsh", "fish"};

// Returns the file for `shell`. Throws UnknownWord for an unknown shell.
std::string completion(const std::vector<Verb>& verbs, std::string_view shell);

}  // namespace estrain::help
