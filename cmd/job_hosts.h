#pragma once
// The hosts of a job as the command line names them, and their agents.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/hosts/setup.h"
#include "core/run/launch/preflight/start.h"

namespace estrain::cmd {

// This host's name in Slurm (SLURMD_NODENAME), or else the host's own.
std::string own_host_name();

// "nodeA,nodeB", or "slurm": the nodes of the allocation, by `scontrol show hostnames`. Throws Fault::usage where a
// name is none or stands twice, or where there is no allocation; its words name the option.
std::vector<std::string> named_hosts(const std::string& list, const std::string& option = "--hosts");

// The answer of look_at_agents (core/hosts/look.h): a row for each name and, where there is a spec, the data files
// here.
struct HostsSeen {
  Json rows, own_data;
};
// Without names it waits for nobody; without names and an address to listen at it does nothing.
HostsSeen look_at_hosts(hosts::LookSetup look);

// Fills in own_host and hosts of the request once the agents of all hosts but this one answer; those that join by this
// host's address may do so meanwhile. Without a list: only whether this host can listen there. Throws Fault::peer
// naming those that do not answer after `seconds`, and why.
void wait_for_hosts(const std::string& list, double seconds, launch::StartRequest& request);

}  // namespace estrain::cmd
