#pragma once
// Where the agents of a run listen: hosts/<name>.json in the run directory. Written by the agent, or, for one that does
// not see the run directory, by the launcher's host (../joining/registry.h); read by the launcher and its proxies. A
// file whose agent is gone leads nowhere.

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

// Letters, digits, '.', '-' and '_', at most 64 of them, not beginning with '.'. Throws Fault::usage.
void require_host_name(const std::string& name);

void write_host_file(const std::string& run, const std::string& name, const HostFile& file);
// Removes it if it leads to that address: another agent may have written it since.
void remove_host_file(const std::string& run, const std::string& name, const HostFile& file);
// Throws Fault::peer where no agent of that name listens, Fault::corrupt where the file names no address, or a name:
// names are looked up nowhere.
HostFile read_host_file(const std::string& run, const std::string& name);
// Nothing where there is no file, or one that names no address.
std::optional<HostFile> read_host_file_if_sound(const std::string& run, const std::string& name);

// The names of all agents that have a file, sorted.
std::vector<std::string> names_of_host_files(const std::string& run);

}  // namespace estrain::hosts
