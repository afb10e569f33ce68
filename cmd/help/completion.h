#pragma once
// The words that shells complete: commands, their options, words that an option takes, keys behind --set, topics behind
// help.

#include <string>
#include <string_view>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::help {

inline constexpr std::string_view shells[] = {"bash", "zsh", "fish"};

// The file for that shell. Throws UnknownWord for another one.
std::string completion(const std::vector<Verb>& verbs, std::string_view shell);

}  // namespace estrain::help
