#pragma once
// The parser's commands as core/words takes them.

#include <CLI/CLI.hpp>
#include <vector>

#include "core/words/verb.h"

namespace estrain::cmd {

// Without those that are hidden, in the order in which they were added.
std::vector<words::Verb> describe_verbs(const CLI::App& app);

}  // namespace estrain::cmd
