#pragma once
// The parser's commands as cmd/help takes them.

#include <CLI/CLI.hpp>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::cmd {

// Without those that are hidden, in the order in which they were added.
std::vector<help::Verb> describe_verbs(const CLI::App& app);

}  // namespace estrain::cmd
