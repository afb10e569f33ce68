#pragma once
// The parser's commands in the form for cmd/help.

#include <CLI/CLI.hpp>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::cmd {

// Returns all commands that are not hidden, in the order of adding.
std::vector<help::Verb> describe_verbs(const CLI::App& app);

}  // namespace estrain::cmd
