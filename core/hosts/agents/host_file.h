#pragma once
// The address of each agent of a run: hosts/<name>.json in the run directory. The agent writes its file. If the agent
// does not see the run directory, the launcher's host writes the file (../joining/joining.h). The launcher and its
// relay read the files. A file whose agent has ended leads to no agent.

#include <optional>
#include <string>
#include <vector>

namespace estrain::hosts {

struct HostFile {
  std::string address;   // "10.0.0.2:7000"
  bool sees_run = true;  // the agent sees the run directory

  bool operator==(const HostFile&) const = default;
};

std::string key_file(const std::string& run);  // network.key

// Allows letters, digits, '.', '-' and '_', at most 64 characters, no '.' at the beginning. Throws Fault::usage.
void require_host_name(const std::string& name);

void write_host_file(const std::string& run, const std::string& name, const HostFile& file);
// Removes the file if it holds this address: another agent may have written the file since.
void remove_host_file(const std::string& run, const std::string& name, const HostFile& file);
// Throws Fault::peer if no agent with this name listens. Throws Fault::corrupt if the file holds no address, or a name
// as address: names from host files are never looked up.
HostFile read_host_file(const std::string& run, const std::string& name);
// Returns nothing if there is no file, or the file holds no address.
std::optional<HostFile> read_host_file_if_sound(const std::string& run, const std::string& name);

// Returns the names of all agents with a file, sorted.
std::vector<std::string> names_of_host_files(const std::string& run);

}  // namespace estrain::hosts
