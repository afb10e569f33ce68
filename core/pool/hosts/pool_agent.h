#pragma once
// `estrain agent --pool DIR`: makes a host's devices available to a pool that a daemon on another host serves. It
// starts what the daemon orders there: launchers of jobs, agents of their runs, commands to them. All of it ends with
// the agent. HOSTS.md has the protocol.

#include <string>

namespace estrain::pool {

struct PoolAgentOptions {
  std::string pool, name;
  std::string devices;             // as for train; empty: a CPU device for each core
  std::string address, interface;  // of this host's agents of runs
  double patience_seconds = 60;    // with a daemon that does not answer at first
};

// Until SIGTERM or SIGINT, and until the pool has let go of the devices. Throws Fault::usage where there is no pool,
// the name is taken, or the daemon does not want this agent; Fault::device; Fault::peer where no daemon answers.
int run_pool_agent(const PoolAgentOptions& options);

}  // namespace estrain::pool
