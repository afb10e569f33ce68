#pragma once
// Where the agents of a run listen: hosts/<name>.json in the run directory. Written by the agent, read by the launcher
// and its proxies; a file whose agent is gone leads nowhere.

#include <optional>
#include <string>
#include <vector>

namespace estrain::hosts {

std::string key_file(const std::string& run);  // network.key

// Letters, digits, '.', '-' and '_', at most 64 of them, not beginning with '.'. Throws Fault::usage.
void require_host_name(const std::string& name);

void write_host_file(const std::string& run, const std::string& name, const std::string& address);
void remove_host_file(const std::string& run, const std::string& name);
// Throws Fault::peer where no agent of that name listens.
std::string read_host_file(const std::string& run, const std::string& name);

// The names of all agents that have a file, sorted.
std::vector<std::string> names_of_host_files(const std::string& run);

}  // namespace estrain::hosts
