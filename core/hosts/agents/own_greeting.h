#pragma once
// The greeting of this process.

#include "core/hosts/net/greeting.h"

namespace estrain::hosts {

// `run`: the name of the run; empty if the name is not known yet. `purpose`: "agent", "courier", "look", … `term`: as
// far as this process knows; 0 for a command.
net::Greeting own_greeting(const std::string& run, const std::string& host, const std::string& purpose, int64_t term);
// The name of a run among hosts: the last part of its directory's path, with links resolved. The rest of the path may
// differ between hosts.
std::string name_of_run(const std::string& directory);

}  // namespace estrain::hosts
