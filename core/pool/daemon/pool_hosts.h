#pragma once
// The folder and the hosts of a served pool: the daemon's own host, the agents of other hosts, and the agents of runs
// there.

#include <string>
#include <utility>

#include "core/pool/hosts/agents.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

struct PoolHosts {
  // The lock of the folder is held (PoolDirectory::lock()). `own_name`: of the daemon's host.
  PoolHosts(std::string path, std::string own_name)
      : directory(std::move(path)), own(std::move(own_name)), agents(directory.path(), own) {}
  PoolHosts(const PoolHosts&) = delete;

  const PoolDirectory directory;
  const std::string own;
  Agents agents;
  RunAgents run_agents{agents};
};

}  // namespace estrain::pool
