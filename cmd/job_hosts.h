#pragma once
// The hosts of a job as named on the command line, and their agents.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/hosts/setup.h"
#include "core/run/launch/preflight/start.h"

namespace estrain::cmd {

// This host's name in Slurm (SLURMD_NODENAME), or else the host's own.
std::string own_host_name();

// "nodeA,nodeB", or "slurm": the nodes of the allocation, by `scontrol show hostnames`. Throws Fault::usage, with the
// name of the option, for an invalid name, a repeated name, or "slurm" without an allocation.
std::vector<std::string> named_hosts(const std::string& list, const std::string& option = "--hosts");

// The answer of look_at_agents (core/hosts/look.h): a row for each name and, with a spec, the data files of this
// host.
struct HostsSeen {
  Json rows, own_data;
};
// Without names, waits for no host; without names and an address to listen at, does nothing.
HostsSeen look_at_hosts(hosts::LookSetup look);

// Fills in own_host and hosts of the request once the agents of all hosts but this one answer; agents may join at this
// host's address meanwhile. Without a list: only checks that this host can listen. Throws Fault::peer with the names of
// hosts without an answer after `seconds`, and the reasons.
void wait_for_hosts(const std::string& list, double seconds, launch::StartRequest& request);

}  // namespace estrain::cmd
